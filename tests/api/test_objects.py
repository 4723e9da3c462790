"""Classes and functions in place of names: of modules, of notebooks and of scripts."""

import linecache
import subprocess
import sys
from pathlib import Path

import named_games
import numpy as np
import pytest

import marless
from marless.reports.user_code.captured_source import captured, import_path, modules_of

CELL = Path(named_games.__file__).read_text() + "SIZE = 3\nthree, four = lambda: build(SIZE), lambda: build(SIZE + 1)\n"


@pytest.fixture
def cell():
    """The names that a cell of a notebook defines, as IPython keeps its source."""
    main, name = type(sys)("__main__"), "<ipython-input-3-cell>"
    linecache.cache[name] = (len(CELL), None, CELL.splitlines(keepends=True), name)
    exec(compile(CELL, name, "exec"), vars(main))
    return main


@pytest.fixture
def run(cell, small):
    return marless.train(cell.Game, quiet=True, run="one", **small)


def test_short_forms_mean_the_keys_of_tables(small):
    short = marless.train("mpe/simple_tag", "iql", rounds=1, quiet=True, actors=small["actors"], seed=3)
    assert all(name in Path(short, "config.toml").read_text() for name in ('"mpe/simple_tag"', '"iql"'))
    assert [short.summary.rounds, marless.resume(short, rounds=2, quiet=True).summary.rounds] == [1, 2]


def test_an_importable_class_is_named(small):
    run = marless.train(named_games.Game, quiet=True, **small)
    assert 'name = "pettingzoo:named_games:Game"' in (run.path / "config.toml").read_text()


def test_a_class_of_a_cell_outlives_its_kernel(run, home):
    (module,) = (run.path / "source").glob("cell_*.py")
    assert f'name = "pettingzoo:{module.stem}:Game"' in (run.path / "config.toml").read_text()
    program = "import marless as m; print(m.resume('one', rounds=3, quiet=True, workers=1).summary.rounds)\n"
    program += "print(m.evaluate('one', episodes=2, workers=1).returns.mean, m.load_policy('one').agents)"
    done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["3", "6.0 ('a0', 'a1')"]


def test_source_that_was_changed_is_refused(run):
    (module,) = (run.path / "source").glob("cell_*.py")
    module.write_text(module.read_text().replace("1.0", "2.0"))
    with pytest.raises(marless.UserError, match=rf"{module.name} was changed since the run began"):
        marless.evaluate(run)


def test_source_of_others_needs_trust(run):
    (run.path / ".seal").unlink()
    with pytest.raises(marless.UserError, match=r"one was not made by you .*cell_\w+:Game.*trust=True"):
        marless.evaluate(run)


@pytest.mark.parametrize(("name", "agents"), [("three", 3), ("four", 4)])
def test_a_lambda_is_told_from_its_neighbour(cell, small, name, agents):
    assert len(marless.train(getattr(cell, name), quiet=True, **small).policy().agents) == agents


def test_a_cloud_refuses_a_class_of_a_cell(cell):
    with pytest.raises(marless.UserError, match=r"emulated imports your code.*pass task='pettingzoo:my_env:MyEnv'"):
        marless.train(cell.Game, backend="emulated")


def test_a_value_without_source_is_refused_by_name(cell):
    cell.SIZE = np.zeros(3)
    with pytest.raises(marless.UserError, match="make travels by its source, and its SIZE, a ndarray, has no source"):
        captured(cell.three)


def test_equal_source_has_one_name(cell):
    first = captured(cell.three)
    assert captured(cell.three) == first and import_path(cell.Game) == "" and import_path(Path) == "pathlib:Path"
    assert modules_of({"task": {"name": f"pettingzoo:{first}"}}) == [first.partition(":")[0]]
    cell.SIZE = 6
    assert captured(cell.three) != first
