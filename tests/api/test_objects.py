"""Classes and functions in place of names: of modules, of notebooks and of scripts."""

import linecache
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import marless
from marless.reports.user_code import captured_source
from marless.reports.user_code.captured_source import captured, import_path

CELL = """
import numpy as np
from gymnasium.spaces import Box, Discrete

LENGTH = 5

def observe(step):
    return np.full(3, step / LENGTH, np.float32)

class Meet:
    def __init__(self, size=2):
        self.possible_agents = [f"agent_{index}" for index in range(size)]
        self.max_cycles = LENGTH

    def observation_space(self, agent):
        return Box(-1, 1, (3,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def close(self):
        pass

    def reset(self, seed=None, options=None):
        self.agents, self.time = [*self.possible_agents], 0
        return {agent: observe(0) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        self.time += 1
        rewards, over = {agent: float(actions[agent]) for agent in self.agents}, self.time == LENGTH
        values = [dict.fromkeys(self.agents, value) for value in (observe(self.time), over, False, {})]
        self.agents = [] if over else self.agents
        return values[0], rewards, *values[1:]

three, four = lambda: Meet(size=3), lambda: Meet(size=4)
"""


@pytest.fixture
def cell(monkeypatch):
    """The names that a cell of a notebook defines, as IPython keeps its source."""
    main = type(sys)("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    name = "<ipython-input-3-cell>"
    monkeypatch.setitem(linecache.cache, name, (len(CELL), None, CELL.splitlines(keepends=True), name))
    exec(compile(CELL, name, "exec"), vars(main))
    return main


def test_short_forms_mean_the_keys_of_tables(small):
    short = marless.train("mpe/simple_tag", "iql", rounds=1, quiet=True, actors=small["actors"], seed=3)
    config = Path(short, "config.toml").read_text()
    assert 'name = "mpe/simple_tag"' in config and 'name = "iql"' in config and short.summary.rounds == 1
    longer = marless.resume(short, rounds=2, quiet=True)
    assert (longer.summary.rounds, longer.summary.seed) == (2, 3)


def test_an_importable_class_is_named(small, home, shell):
    (home / "meeting.py").write_text(CELL)
    shell.import_from(home)
    from meeting import Meet

    run = marless.train(Meet, quiet=True, run="one", **small)
    assert 'name = "pettingzoo:meeting:Meet"' in (run.path / "config.toml").read_text()
    assert not (run.path / "source").exists()


def test_a_class_of_a_cell_outlives_its_kernel(cell, small, home):
    run = marless.train(cell.Meet, quiet=True, run="one", **small)
    (module,) = (run.path / "source").glob("cell_*.py")
    assert f'name = "pettingzoo:{module.stem}:Meet"' in (run.path / "config.toml").read_text()
    program = (
        "import marless\n"
        "print(marless.resume('one', rounds=3, quiet=True, workers=1).summary.rounds)\n"
        "print(marless.evaluate('one', episodes=2, workers=1).returns.episodes, marless.load_policy('one').agents)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["3", "2 ('agent_0', 'agent_1')"]


def test_source_that_was_changed_is_refused(cell, small):
    run = marless.train(cell.Meet, quiet=True, run="one", **small)
    (module,) = (run.path / "source").glob("cell_*.py")
    module.write_text(module.read_text().replace("LENGTH = 5", "LENGTH = 6"))
    with pytest.raises(marless.UserError, match=rf"{module.name} was changed since the run began"):
        marless.evaluate(run)


def test_source_of_others_needs_trust(cell, small):
    run = marless.train(cell.Meet, quiet=True, run="one", **small)
    (run.path / ".seal").unlink()
    with pytest.raises(marless.UserError, match=r"one was not made by you .*cell_\w+:Meet.*trust=True"):
        marless.evaluate(run)


@pytest.mark.parametrize(("name", "agents"), [("three", 3), ("four", 4)])
def test_a_lambda_is_told_from_its_neighbour(cell, small, name, agents):
    run = marless.train(getattr(cell, name), quiet=True, **small)
    assert len(run.policy().agents) == agents


def test_a_cloud_refuses_a_class_of_a_cell(cell):
    with pytest.raises(marless.UserError, match=r"emulated imports your code.*pass task='pettingzoo:my_env:MyEnv'"):
        marless.train(cell.Meet, backend="emulated")


def test_a_value_without_source_is_refused_by_name(cell):
    cell.LENGTH = np.zeros(3)
    with pytest.raises(marless.UserError, match="Meet travels by its source, and its LENGTH, a ndarray, has no"):
        captured(cell.Meet)


def test_equal_source_has_one_name(cell):
    first = captured(cell.Meet)
    assert captured(cell.Meet) == first and import_path(cell.Meet) == "" and import_path(Path) == "pathlib:Path"
    cell.LENGTH = 6
    assert captured(cell.Meet) != first
    assert captured_source.modules_of({"task": {"name": f"pettingzoo:{first}"}}) == [first.partition(":")[0]]
