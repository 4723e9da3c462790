"""Leagues: the same bytes for any placement, after a kill, and the matrix of their checkpoints."""

import json
from pathlib import Path

import pytest
from driver import SMALL, in_flight, outcome, stores_what_it_needs
from driver import train as drive

LEAGUE = (
    "task.name=mpe/simple_tag", "algorithm.hidden=[8]", "league.rule=prioritised", "league.every=1", "league.size=3",
    "actors.rollouts=3", "stop.rounds=5",
)  # fmt: skip
REPLAY = ("algorithm.updates_per_round=2", "algorithm.batch_size=8", "algorithm.buffer_size=400")
METHODS = {
    "mappo": (),
    "ippo, shared, with memory": ("algorithm.name=ippo", "sharing.rule=all", "algorithm.recurrent=true"),
    "qmix": ("algorithm.name=qmix", *REPLAY),
    "masac": ("algorithm.name=masac", *REPLAY),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", METHODS)
def test_the_placement_changes_nothing_of_a_league(train, method):
    settings = (*LEAGUE, *METHODS[method])
    split = train(*settings, "placement.rule=split")
    assert split.state.status == "finished", split.state.reason
    packed = train(*settings, "placement.rule=packed", "placement.pack=3")
    assert outcome(packed) == outcome(split)
    # Groups of agents that observe and do unequal numbers of things, or halves of two recurrent ones.
    for workers in (2, 3):
        balanced = train(*settings, "placement.rule=balanced", workers=workers)
        assert outcome(balanced) == outcome(split)


def test_league_is_same_planned_or_in_messages(train):
    split = train(*LEAGUE, "placement.rule=split")
    planned = train(*LEAGUE, "placement.rule=auto")
    inline = train(*LEAGUE, "placement.rule=fused", "placement.inline_objects=true", "checkpoint_every=2")
    assert outcome(planned) == outcome(inline) == outcome(split)
    assert len(planned.lines) == 5 and "whole" not in {line.placement for line in planned.lines}
    assert train(*LEAGUE, "league.rule=none", "placement.rule=split").sha256 != split.sha256


@pytest.mark.one_in(2)
@pytest.mark.parametrize("method", ["mappo", "qmix"])
def test_league_script_has_same_bytes_for_any_placement(train, method):
    settings = (*LEAGUE, *METHODS[method], "league.script=scripted_players:first_two")
    split = train(*settings, "placement.rule=split")
    assert split.state.status == "finished", split.state.reason
    assert split.lines[-1].metrics["league/scripted/adversary"] != 0.5
    assert outcome(train(*settings, "placement.rule=fused", workers=2)) == outcome(split)
    assert split.sha256 != train(*LEAGUE, *METHODS[method], "placement.rule=split").sha256


@pytest.mark.one_in(2)
@pytest.mark.parametrize("phase", ["sample", "learn"])
def test_a_killed_league_goes_on_with_its_checkpoints(tmp_path, phase):
    settings = [*SMALL, *LEAGUE, "placement.rule=split", "checkpoint_every=2"]
    expected = drive(tmp_path / "undisturbed", settings)
    moment = in_flight(3, phase)
    assert moment(drive(tmp_path / "killed", settings, leave=moment).state)
    again = drive(tmp_path / "killed", settings)
    assert outcome(again) == outcome(expected)
    # 0, 1, 2 and 3 are one too many: every second is kept, and added.
    assert [one.round for one in again.state.league.checkpoints] == [0, 2, 4]
    assert stores_what_it_needs(tmp_path / "killed", again)


@pytest.mark.slow
def test_crossplay_of_a_league_and_of_runs(marless, no_processes):
    settings = [*SMALL, *LEAGUE, "league.size=8", "league.every=2"]
    assert marless("train", *settings, "--run", "one", "--workers", "1").code == 0
    said = marless("crossplay", "one", "--episodes", "4", "--json")
    found = json.loads(said.out[0])
    assert found["teams"] == ["round 0", "round 2", "round 4", "round 5"]
    assert all(found["scores"][i][i] == 0.5 for i in range(4))  # both seats of one team, on the same start states
    assert found["ratings"][0] == 1200
    assert json.loads(Path("runs/one/crossplay.json").read_text()) == found
    assert marless("train", *settings, "league.rule=none", "seed=2", "--run", "two", "--workers", "1").code == 0
    said = marless("crossplay", "one", "two", "random", "--episodes", "4")
    assert said.code == 0 and any("random" in line for line in said.out), said.err
    alone = marless("crossplay", "two")
    assert alone.code == 2 and "league.rule" in alone.err[-1]
    twice = marless("crossplay", "two", "two")
    assert twice.code == 2 and "twice" in twice.err[-1]
