"""`marless study` of rules on several tasks: tiny tasks through the command line, going on, and refusals."""

import json
from pathlib import Path

import pytest
from commands import Commands

from marless.ablation import rules_file
from marless.ablation.arms import arms_by_name, configuration
from marless.environments import roles_of
from marless.functions.environments import registry
from marless.functions.environments.task_names import is_known

SUITE = """
seeds = "101"
rules = ["all+constant:1@split", "none+constant:2@split"]
[base]
algorithm.hidden = [8]
actors.num_envs = 8
evaluation = { every = 2, episodes = 4, final_episodes = 4 }
stop.rounds = 2
[[tasks]]
name = "signal"
random = 1.4
values.task.name = "toy/signal"
[[tasks]]
name = "corridor"
random = 1.0
rules = ["all+constant:2@split"]
values.task.name = "toy/corridor"
values.actors.rollout_length = 10
"""
SHIPPED = Path(__file__).parents[3] / "benchmarks" / "suite.toml"


@pytest.fixture
def marless(tmp_path, shell, capfd):
    shell.cd(tmp_path)
    Path("small.toml").write_text(SUITE)
    return Commands(capfd)


@pytest.mark.slow
def test_suite_is_ablation_per_task_with_one_table(marless):
    said = marless("study", "small.toml", "--workers", "2")
    assert (said.code, said.out[-1]) == (0, "studies/small")
    root = Path("studies/small")
    assert [task["task"] for task in json.loads((root / "table.json").read_text())] == ["signal", "corridor"]
    assert {path.name for path in (root / "corridor" / "runs").iterdir()} == {
        "all-constant-1-split-s101",
        "none-constant-2-split-s101",
        "all-constant-2-split-s101",
    }
    assert len(list((root / "signal" / "runs").iterdir())) == 2 and (root / "signal" / "table.md").exists()
    table = (root / "table.md").read_bytes()
    stamp = (root / "signal" / "runs" / "none-constant-2-split-s101" / "summary.json").stat().st_mtime_ns
    said = marless("study", "small.toml", "--workers", "2")
    assert said.out[0] == "arms: 2, seeds: 1, runs: 2, of them finished: 2"
    assert (root / "table.md").read_bytes() == table
    assert (root / "signal" / "runs" / "none-constant-2-split-s101" / "summary.json").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "corridor"', 'name = "signal"', "small.toml: two tasks are called signal"),
        ("random = 1.4", "", "small.toml: tasks[0]: random is missing"),
        ("toy/corridor", "toy/nothing", "no environment is called toy/nothing"),
        ("stop.rounds = 2", "stop.rounds = -2", "the task signal: stop.rounds"),
        ("all+constant:2@split", "ours+none", "there is no arm called 'ours+none'"),
    ],
)
def test_bad_suite_is_one_line_and_leaves_nothing(marless, old, new, says):
    Path("small.toml").write_text(SUITE.replace(old, new))
    said = marless("study", "small.toml")
    assert (said.code, len(said.err)) == (2, 1) and says in said.err[0]
    assert [path.name for path in Path().iterdir()] == ["small.toml"]


def test_what_is_for_one_task_is_refused(marless):
    said = marless("ablate", "small.toml", "--random", "3")
    assert said.code == 2 and "small.toml: random and reference are for one task" in said.err[1]
    said = marless("study", "small.toml", "--stop")
    assert said.code == 2 and "compares rules, on this machine or on Ray; leave --stop" in said.err[0]


def test_shipped_suite_has_eight_tasks_with_runnable_arms():
    shipped = rules_file.load(SHIPPED)
    assert len(shipped.tasks) >= 8
    for task in shipped.tasks:
        base = rules_file.configuration(shipped, task, ())
        assert is_known(base.task.name)
        for arm in arms_by_name([*shipped.rules, *task.rules]):
            configuration(arm, base)
        if base.task.name.startswith("roles/"):
            roles = dict(zip(registry.make(base.task, 1).spec.agents, roles_of(base.task), strict=True))
            together = {frozenset(agent for agent in roles if roles[agent] == role) for role in roles.values()}
            assert {frozenset(group) for group in base.sharing.groups} == together
