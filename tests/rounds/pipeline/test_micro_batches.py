"""Rounds that are summed by micro-batch have the same bytes, at any place and time of the sums."""

import pytest
from driver import CONTROLLER, SMALL
from driver import train as drive

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError

ONE_STEP = ("algorithm.epochs=1", "algorithm.num_minibatches=1")
STREAMED = (*ONE_STEP, "actors.rollouts=5", "pipeline.micro_batch=2")
ELSEWHERE = [
    ("placement.rule=split",),
    ("placement.rule=packed", "placement.pack=3"),
    ("placement.rule=whole", "placement.chain=3"),
]
LEARNING = {
    "mappo": ("algorithm.name=mappo",),
    "ippo that shares": ("algorithm.name=ippo", "sharing.rule=all", "sharing.rows=member"),
    "recurrent": ("algorithm.name=ippo", "algorithm.recurrent=true", "algorithm.data_chunk_length=9"),
    "a schedule": ("algorithm.ent_schedule=linear", "algorithm.lr_schedule=linear"),
    "normalised observations": ("algorithm.normalise_observations=true",),
}


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("learning", LEARNING)
def test_placement_packing_and_workers_change_no_weight(train, learning):
    options = (*LEARNING[learning], *STREAMED)
    runs = [train(*options), *(train(*options, *elsewhere) for elsewhere in ELSEWHERE)]
    assert len({run.sha256 for run in runs}) == 1
    assert runs[0].lines[-1].metrics == runs[1].lines[-1].metrics == runs[2].lines[-1].metrics
    assert runs[0].sha256 != train(*options, "pipeline.micro_batch=0").sha256


def test_workers_and_inlined_objects_change_no_weight(train):
    alone = train(*STREAMED)
    assert train(*STREAMED, workers=3).sha256 == alone.sha256
    assert train(*STREAMED, "placement.inline_objects=true", "checkpoint_every=3").sha256 == alone.sha256
    assert train(*STREAMED, "placement.rule=auto", workers=2).sha256 == alone.sha256
    balanced = train(*STREAMED, "placement.rule=balanced", workers=2)
    assert balanced.sha256 == alone.sha256
    # Three micro-batches and two packs of groups. Each pack is summed and then learned.
    assert balanced.lines[-1].learners == 3 * 2 + 2


def test_single_micro_batch_is_summed_once(train):
    one = train(*ONE_STEP, "actors.rollouts=2", "pipeline.micro_batch=8", "placement.rule=packed")
    assert one.lines[-1].invocations == 2 + 1 + 1
    assert one.sha256 == train(*ONE_STEP, "actors.rollouts=2", "pipeline.micro_batch=2").sha256


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        lambda slots: any(name.startswith("grad/00000/") for name in slots) and "sample/00004-00004" in slots,
        lambda slots: any(slot.done for name, slot in slots.items() if name.startswith("grad/")),
        lambda slots: any(name.startswith("learn/") for name in slots),
    ],
    ids=["sums are asked for", "some are made", "all are folded"],
)
@pytest.mark.parametrize("after", [(), ("placement.rule=packed",)], ids=["as before", "placed otherwise"])
def test_run_killed_before_sums_has_same_weights(train, tmp_path, moment, after):
    options = [*SMALL, "stop.rounds=4", *STREAMED]
    left = drive(tmp_path, options, workers=2, leave=lambda state: state.round == 2 and moment(state.slots))
    assert left.state.status == "running" and left.state.slots
    assert drive(tmp_path, [*options, *after], workers=2).sha256 == train(*STREAMED).sha256


@pytest.mark.slow
def test_teams_change_between_rounds_that_are_summed(train):
    changing = tuple(option for option in CONTROLLER if not option.startswith(("scaling.", "stop.")))
    options = (*changing, *STREAMED, "stop.rounds=8")
    runs = [train(*options), train(*options, "placement.rule=whole"), train(*options, *ELSEWHERE[1])]
    assert {"shared", "split"} <= {line.event for line in runs[0].lines}
    assert len({run.sha256 for run in runs}) == 1


def test_a_league_plays_rounds_that_are_summed(train):
    league = ("task.name=mpe/simple_tag", "league.rule=prioritised", "league.every=2", *STREAMED)
    runs = [train(*league), train(*league, "placement.rule=split", workers=2)]
    assert len({run.sha256 for run in runs}) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("pipeline.micro_batch=2",),
            "pipeline.micro_batch: mappo learns in 4 epochs of shuffled rows: set algorithm.epochs=1 and"
            " algorithm.num_minibatches=1, or pipeline.lag=1 and pipeline.micro_batch=0",
        ),
        (
            ("pipeline.micro_batch=2", "algorithm.epochs=1"),
            "pipeline.micro_batch: mappo learns in 1 epoch of shuffled rows: set algorithm.epochs=1 and"
            " algorithm.num_minibatches=1, or pipeline.lag=1 and pipeline.micro_batch=0",
        ),
        (
            ("pipeline.micro_batch=2", "algorithm.name=happo"),
            "pipeline.micro_batch: happo has no sums over a part of a round, as ippo, mappo and grpo have; set"
            " pipeline.micro_batch=0",
        ),
        (
            (*STREAMED, "pipeline.lag=1"),
            "pipeline.micro_batch: with a lag other weights sampled, and what is learned is no sum; set pipeline.lag=0",
        ),
        (
            (*STREAMED, "scaling.rule=gns"),
            "pipeline.micro_batch: scaling.rule=gns reads every row's advantage, which sums do not keep; set"
            " scaling.rule=constant",
        ),
        (
            (*STREAMED, "sharing.rule=dynamic", "sharing.base=convexity"),
            "pipeline.micro_batch: sharing.base=convexity reads every row's advantage, which sums do not keep; set"
            " sharing.base=distil",
        ),
    ],
)
def test_what_cannot_be_summed_is_refused_by_name(options, message):
    with pytest.raises(ConfigError) as error:
        load(None, options)
    assert str(error.value) == f"the command line: {message}"
