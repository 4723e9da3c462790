"""Classes and functions in place of names: of modules, of notebooks and of scripts."""

import linecache
import subprocess
import sys
from functools import partial
from pathlib import Path

import named_games
import numpy as np
import pytest

import marless
from marless.reports.user_code.captured_source import captured, import_path, modules_of

CELL = Path(named_games.__file__).read_text() + "SIZE = 3\nthree, four = lambda: build(SIZE), lambda: build(SIZE + 1)\n"


@pytest.fixture
def define():
    """Return a function that runs a cell, and returns its names."""

    def run_cell(source, small=None):
        module, name = type(sys)("__main__"), f"<ipython-input-{len(linecache.cache)}-cell>"
        module.small = {key: value for key, value in (small or {}).items() if key != "algorithm"}
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), vars(module))
        return module

    return run_cell


@pytest.fixture
def cell(define):
    """The names that a cell of a notebook defines, as IPython keeps its source."""
    return define(CELL)


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


def test_changed_or_foreign_source_is_refused(run):
    (module,) = (run.path / "source").glob("cell_*.py")
    module.write_text(module.read_text().replace("1.0", "2.0"))
    with pytest.raises(marless.UserError, match=rf"{module.name} was changed since the run began"):
        marless.evaluate(run)
    (run.path / ".seal").unlink()
    with pytest.raises(marless.UserError, match=r"one was not made by you .*cell_\w+:Game.*trust=True"):
        marless.evaluate(run)


@pytest.mark.parametrize(("name", "agents"), [("three", 3), ("four", 4)])
def test_a_lambda_is_told_from_its_neighbour(cell, small, name, agents):
    assert len(marless.train(getattr(cell, name), quiet=True, **small).policy().agents) == agents


def test_a_cloud_refuses_a_class_of_a_cell(cell):
    with pytest.raises(marless.UserError, match=r"emulated imports your code, and cell_\w+ is source.* import it"):
        marless.train(cell.Game, backend="emulated")


def test_an_algorithm_takes_15_lines(small, define):
    tutorial = (Path(__file__).parents[2] / "docs/tutorials/your-algorithm.md").read_text()
    lines = [line for line in tutorial.partition("```python\n")[2].partition("```")[0].splitlines() if line]
    assert len(lines) <= 15 and lines[-1].startswith("run = marless.train(")
    names = define("\n".join(lines).replace("rounds=50", "quiet=True, **small"), small)
    assert names.run.name.startswith("simple_spread-mean_field-")
    program = "import marless as m; r = m.resume('latest', rounds=3, quiet=True, workers=1); print(r.summary.rounds)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


def test_a_specification_of_a_script_trains(home):
    tutorial = (Path(__file__).parents[2] / "docs/tutorials/your-algorithm.md").read_text()
    script = tutorial.partition('"""Independent REINFORCE')[2].partition("\n")[2].partition("```")[0]
    script += "import marless\nmarless.train('toy/signal', SPEC, rounds=1, quiet=True, workers=1, run='one')\n"
    (home / "script.py").write_text(script)
    subprocess.run([sys.executable, "script.py"], cwd=home, check=True)
    run = marless.open_run("one")
    assert "value_loss" in str(run.metrics()[0]) and marless.evaluate(run, episodes=2).agents
    (run.path / ".seal").unlink()
    with pytest.raises(marless.UserError, match=r"and imports algorithm\.name=cell_\w+:reinforce: read "):
        marless.compare(run)


def test_a_function_is_a_rule_and_a_judge(small, define):
    names = define(
        "import marless\n@marless.rule\ndef most(history, bounds, rng):\n    return bounds.most\n"
        "@marless.judge\ndef grade(question):\n    return b'100'\n"
    )
    scaling, task = {"rule": "most"}, {"name": "toy/signal", "judge": names.grade}
    run = marless.train({**small, "task": task}, scaling=scaling, actors={"rollouts": 2}, quiet=True)
    assert [row["rollouts"] for row in run.metrics()] == [2, 2] and run.summary.final_return.mean >= 200
    assert Path(run, "config.toml").read_text().count("cell_") == 2


def test_a_study_of_a_cell_outlives_its_kernel(cell, small, home):
    file = {"base": {**small, "task": cell.Game}, "vary": {"algorithm": {"lr": [1e-3]}}, "seeds": [1]}
    marless.study(file, out="studies/games", quiet=True, workers=1)
    program = "import marless as m; print(m.study('games', quiet=True).runs[0].status)"
    done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True, check=True)
    assert done.stdout == "finished\n"
    (home / "studies/games/runs/lr-0.001-s1/.seal").unlink()
    done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True)
    assert "source of a notebook that no run of yours there has: repeat the call" in done.stderr


def test_secrets_and_values_without_source_are_refused(define, cell):
    names = define("API_TOKEN = 'f3b0-4429'\ndef make():\n    return API_TOKEN\n")
    with pytest.raises(marless.UserError, match="a run would store API_TOKEN, which looks like a secret"):
        captured(names.make)

    cell.SIZE = np.zeros(3)
    with pytest.raises(marless.UserError, match="own_function travels by its source, and its SIZE, a ndarray, has no"):
        captured(cell.three)


def test_object_in_place_of_class_is_one_line(cell):
    with pytest.raises(marless.UserError, match="task is an environment: pass Game, or a function that makes one"):
        marless.train(cell.Game())
    with pytest.raises(marless.UserError, match="cannot keep a partial object: pass its class, or a function"):
        marless.train(cell.Game, network=partial(cell.Game))


def test_equal_source_has_one_name(cell):
    first = captured(cell.three)
    assert captured(cell.three) == first and import_path(cell.Game) == "" and import_path(Path) == "pathlib:Path"
    assert modules_of({"task": {"name": f"pettingzoo:{first}"}}) == [first.partition(":")[0]]
    cell.SIZE = 6
    assert captured(cell.three) != first
