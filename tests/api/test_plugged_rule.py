"""A user's rules from another package."""

import os
from pathlib import Path

import pytest
from installed_plug_ins import PLUG_INS, install

import marless
from marless.cli.app import main

ROOT = Path(__file__).parents[2]
RULES = {"scaling": {"rule": "ramp", "min_rollouts": 2}, "trend": {"rule": "three_down"}, "actors": {"rollouts": 5}}


@pytest.fixture
def installed(home, shell):
    install(home / "site", shell, "my_rule")


def test_a_run_is_scaled_by_it(installed, small, capsys):
    run = marless.train(small, quiet=True, stop={"rounds": 5}, **RULES)
    assert [row["rollouts"] for row in run.metrics()] == [2, 3, 4, 5, 5]
    assert 'rule = "ramp"' in (run.path / "config.toml").read_text()
    assert marless.resume(run, stop={"rounds": 6}, quiet=True).summary.rounds == 6
    assert main(["config", "scaling.rule=ramp", "actors.rollouts=4"]) == 0
    assert "ramp: grows by one rollout a round" in capsys.readouterr().out


def test_rule_that_spends_needs_no_floor(small):
    stop, rule = {"rounds": 2000, "dollars": 1, "env_steps": 6000}, "benchmarks.entities.schedules:TEN_25_EARLY"
    run = marless.train(small, quiet=True, stop=stop, scaling={"rule": rule}, actors={"rollouts": 25})
    assert [row["rollouts"] for row in run.metrics()] == [10] * 5 + [25]


def test_an_ablation_takes_it(installed, home, shell, capsys):
    # Its runs are processes.
    shell.export(PYTHONPATH=os.pathsep.join(map(str, (home / "site", PLUG_INS / "my_rule", ROOT))))
    small = ["actors.num_envs=2", "evaluation.episodes=2", "evaluation.final_episodes=2", "actors.rollouts=3"]
    axes = ["--sharing", "none", "--scaling", "ramp", "--placement", "fused", "--seeds", "1", "--workers", "1"]
    assert main(["ablate", *small, "stop.rounds=2", *axes]) == 0
    assert "none+ramp@fused" in capsys.readouterr().out


def test_without_it_the_rule_is_unknown(small):
    with pytest.raises(marless.ConfigError, match=r"scaling\.rule: there is no scaling rule 'ramp'; known are const"):
        marless.train(small, scaling=RULES["scaling"])


@pytest.mark.parametrize(
    ("value", "problem"),
    [("no:R", "No module named 'no'"), ("my_rule:np", "is no Rule"), ("my_rule:THREE_DOWN", "is no Rule of a Sc")],
)
def test_one_that_cannot_be_used_is_a_line(home, shell, small, value, problem):
    install(home / "site", shell, "my_rule", **{"scaling.ramp": value})
    with pytest.raises(marless.ConfigError, match=problem):
        marless.train(small, scaling=RULES["scaling"])
