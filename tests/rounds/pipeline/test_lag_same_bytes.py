"""Rounds that learn from earlier rounds during sampling have the same bytes anywhere, and after any failure."""

import pytest
from driver import EASY, FLIPPING, SMALL, in_flight, stores_what_it_needs
from driver import train as drive

from marless.coordinator.drive.ledger_items import load_state
from marless.infra.local.sqlite_ledger import SqliteLedger

LAGGING = (
    "pipeline.lag=2", "algorithm.hidden=[8]", "actors.rollouts=2", "checkpoint_every=3", "stop.rounds=6",
    "evaluation.every=3",
)  # fmt: skip
SPLIT, PACKED = "placement.rule=split", "placement.rule=packed"
# Rewards make agents' networks differ, and each learns the round before last by another mechanism.
VARIANTS = {
    "one network in memory": ("algorithm.name=ippo", "algorithm.recurrent=true", "sharing.rule=all"),
    "by turns": ("algorithm.name=happo",),
    "replay": ("algorithm.name=qmix", "algorithm.updates_per_round=2", "algorithm.batch_size=16",
               "algorithm.buffer_size=1000"),
    "priorities": ("algorithm.name=iql", "algorithm.priority=0.7", "algorithm.updates_per_round=2",
                   "algorithm.batch_size=16", "algorithm.buffer_size=1000"),
    "fragments": ("task.options.max_cycles=20", "actors.rollout_length=7"),
    "rollouts by noise": ("algorithm.name=ippo", "scaling.rule=gns", "actors.rollouts=6", "scaling.min_rollouts=2"),
    "teams that change": (*FLIPPING, *EASY, "algorithm.name=ippo", "stop.rounds=8"),
    "a league": ("task.name=mpe/simple_tag", "league.rule=prioritised", "league.every=2", "actors.rollouts=4"),
}  # fmt: skip
QUICK = ("replay", "teams that change")


def outcome(run):
    assert run.state.status == "finished", run.state.reason
    lines = [(line.round, line.agent_returns, line.metrics, line.team, line.rollouts) for line in run.lines]
    return run.sha256, lines, run.state.final, [(past.round, past.rollouts) for past in run.state.past]


@pytest.mark.parametrize(
    ("placement", "workers"),
    [
        ((PACKED,), 2),
        (("placement.rule=fused", "placement.pack=2"), 3),
        (("placement.rule=balanced",), 2),
        (("placement.rule=auto",), 1),
        ((PACKED, "placement.inline_objects=true"), 2),
    ],
)
def test_placement_and_workers_change_no_byte(train, placement, workers):
    assert outcome(train(*LAGGING, *placement, workers=workers)) == outcome(train(*LAGGING, SPLIT))


@pytest.mark.parametrize(
    "variant", [each if each in QUICK else pytest.param(each, marks=pytest.mark.conformance) for each in VARIANTS]
)
def test_other_learning_settings_have_placement_independent_bytes(train, variant):
    apart = train(*LAGGING, *VARIANTS[variant], SPLIT)
    assert outcome(train(*LAGGING, *VARIANTS[variant], "placement.rule=balanced", workers=2)) == outcome(apart)
    assert [bool(line.learners) for line in apart.lines] == [False] * 2 + [True] * (len(apart.lines) - 2)
    assert variant != "teams that change" or {"shared", "split"} <= {line.event for line in apart.lines}
    assert variant != "rollouts by noise" or len({line.rollouts for line in apart.lines}) > 1


def test_each_lag_learns_differently_and_zero_is_none(train):
    lags = [train(*LAGGING, SPLIT, f"pipeline.lag={lag}") for lag in range(3)]
    assert len({run.sha256 for run in lags}) == 3
    # Rounds that only sampled left the weights as they were, so the rounds after them were sampled by the same ones.
    assert lags[1].lines[0].return_mean == lags[2].lines[0].return_mean
    assert train(*LAGGING[1:], SPLIT).sha256 == lags[0].sha256


@pytest.mark.one_in(2)
@pytest.mark.parametrize("placement", [(SPLIT,), (PACKED, "placement.inline_objects=true")], ids=" ".join)
@pytest.mark.parametrize("moment", [(1, "sample"), (2, "learn"), (4, "learn")])
def test_killed_run_continues_to_same_end(train, tmp_path, placement, moment):
    options = [*SMALL, *LAGGING, *placement]
    assert in_flight(*moment)(drive(tmp_path, options, leave=in_flight(*moment)).state)
    assert outcome(drive(tmp_path, options, workers=2)) == outcome(train(*LAGGING, SPLIT))


def test_run_continued_in_other_placement_is_equal(train, tmp_path):
    lagging = (*LAGGING, "algorithm.lr_schedule=constant")  # which else falls over the run's rounds
    drive(tmp_path, [*SMALL, *lagging, SPLIT], leave=in_flight(3, "learn"))
    drive(tmp_path, [*SMALL, *lagging, "placement.rule=fused", "stop.rounds=5"], workers=2)
    run = drive(tmp_path, [*SMALL, *lagging, PACKED])
    assert outcome(run)[::2] == outcome(train(*lagging, SPLIT))[::2]


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"torn"), lambda path: path.unlink()])
def test_lost_waiting_round_is_sampled_again(train, tmp_path, damage):
    """Rounds after 3, the last checkpoint, may be lost."""
    options = [*SMALL, *LAGGING, PACKED]
    drive(tmp_path, options, leave=in_flight(4, "learn"))
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")
    state = load_state(ledger)
    ledger.close()
    assert (state.saved, [past.round for past in state.past]) == (3, [2, 3])
    damage(tmp_path / "objects" / state.past[-1].trajectories[0].key)
    rounds = []
    resumed = drive(tmp_path, options, leave=lambda state: rounds.append(state.round))
    assert rounds[0] == 3
    assert outcome(resumed) == outcome(train(*LAGGING, SPLIT))


def test_storage_keeps_only_rounds_still_to_learn(tmp_path):
    trained = drive(tmp_path, [*SMALL, *LAGGING, PACKED])
    assert stores_what_it_needs(tmp_path, trained)
    keys = sorted({ref.key for ref in trained.state.durable_refs})
    assert [key.split("/")[1] for key in keys if "trajectory" in key] == ["000004"] * 2 + ["000005"] * 2
