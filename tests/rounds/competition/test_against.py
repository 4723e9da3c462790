"""`marless evaluate --against`: each side of a run's policies against fixed opponents."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from commands import SMALL, Commands

from marless.cli.app import main
from marless.functions.environments.scripted.players import choose
from marless.reports import load_policy
from marless.reports.crossplay import totals
from marless.reports.policy import scripted_policy

SIDES = ("adversary", "agent")
RUNS = {
    "first": ("task.name=mpe/simple_tag", "seed=1"),
    "second": ("task.name=mpe/simple_tag", "seed=2"),
    "together": (),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, before = tmp_path_factory.mktemp("against"), Path.cwd()
    os.chdir(path)
    try:
        for name, settings in RUNS.items():
            short = ("stop.rounds=1", "evaluation.episodes=2", "evaluation.final_episodes=8")
            assert main(["train", *SMALL, *settings, *short, "--run", name, "--workers", "1"]) == 0
    finally:
        os.chdir(before)
    return path


@pytest.fixture
def marless(folder, shell, capfd, no_processes):
    shell.cd(folder)
    return Commands(capfd)


def test_every_side_is_played_against_every_opponent(marless):
    said = marless("evaluate", "first", "--against", "random", "--against", "second", "--json")
    found = json.loads(said.out[0])
    assert (found["run"], found["round"], found["episodes"]) == ("first", 1, 8)
    own, other = load_policy("runs/first"), load_policy("runs/second")
    expected = {
        (side, name): totals(own.task, own, side, team, 8, 1).mean()
        for side in ("adversary", "agent")
        for name, team in (("random", None), ("second", other))
    }
    means = {(play["side"], play["against"]): play["returns"]["mean"] for play in found["plays"]}
    assert means == pytest.approx(expected)
    assert all(play["returns"]["episodes"] == 8 and play["returns"]["ci95"] for play in found["plays"])


def test_script_is_opponent_of_evaluations_and_cross_play(marless):
    script = "scripted_players:first"
    found = json.loads(marless("evaluate", "first", "--against", script, "--json").out[0])
    own = load_policy("runs/first")
    expected = [totals(own.task, own, side, scripted_policy(own.task, script), 8, 1).mean() for side in SIDES]
    assert [play["returns"]["mean"] for play in found["plays"]] == pytest.approx(expected)
    crossed = json.loads(marless("crossplay", "first", script, "random", "--episodes", "4", "--json").out[0])
    assert crossed["teams"] == ["first", script, "random"]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("scripted", "mpe/simple_tag has no scripted player of its own"),
        ("no_such:player", "no_such"),
        ("scripted_players:nothing", "one or more of the legal actions"),
    ],
)
def test_unplayable_script_is_refused_in_one_line(marless, script, message):
    for command in (("evaluate", "first", "--against", script), ("crossplay", "first", script)):
        said = marless(*command, "--episodes", "4")
        assert said.code == 2 and message in said.err[-1], said.err


def test_the_player_of_the_guide_plays(marless, folder):
    text = Path(__file__).parents[3].joinpath("docs/how-to/opponents.md").read_text(encoding="utf-8")
    (folder / "my_players.py").write_text(text.split("```python\n")[1].split("```")[0])
    said = marless("evaluate", "first", "--against", "my_players:edges", "--episodes", "4", "--json")
    assert said.code == 0, said.err
    # All actions are legal here: the player draws from the first and the last.
    found = choose("my_players:edges", np.zeros((2, 3)), np.array([[True] * 4, [False, True, True, False]]))
    assert found.tolist() == [[True, False, False, True], [False, True, True, False]]


def test_people_read_line_per_side_with_interval(marless):
    said = marless("evaluate", "first", "--against", "random", "--against", "runs/second/policies.safetensors")
    assert said.out[0] == "first, policies of round 1, greedy, 8 episodes per line"
    assert [line.split()[:2] for line in said.out[2:6:2]] == [["adversary", "random"], ["agent", "random"]]
    assert all("±" in line for line in said.out[2:6])


@pytest.mark.parametrize(
    ("run", "against", "why"),
    [
        ("first", "nobody", "there is no run nobody"),
        ("first", "together", "trained on another task"),
        ("together", "random", "no opponents to play against"),
    ],
)
def test_opponents_that_cannot_play_are_refused(marless, run, against, why):
    said = marless("evaluate", run, "--against", against)
    assert said.code == 2 and why in said.err[0]


def test_an_evaluation_says_what_each_side_got(marless):
    found = json.loads(marless("evaluate", "first", "--episodes", "6", "--json").out[0])
    chasers = sum(found["agents"][f"adversary_{number}"] for number in range(3))
    assert found["sides"] == pytest.approx({"adversary": chasers, "agent": found["agents"]["agent_0"]})
    assert "sides" not in json.loads(marless("evaluate", "together", "--json").out[0])
