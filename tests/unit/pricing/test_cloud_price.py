"""The printed price of a local run: the cloud's, in its cheapest placement there."""

import msgspec
import pytest
from simulated import World, make_plan, on_lambda, promising

from marless.coordinator.config.defaults import placed_in_cloud
from marless.coordinator.config.loading import load
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.runs.cloud_price import cloud_dollars

ROUNDS, ROLLOUTS = 12, 4
SETTINGS = (f"stop.rounds={ROUNDS}", f"actors.rollouts={ROLLOUTS}", "evaluation.every=20", "sharing.rule=none")
# Rows that one of the two agents' groups learns from: 2 environments of 5 steps in each of four rollouts.
ROWS = 40


def record(round_, kind, function, size, ms):
    return AttemptRecord(
        round=round_, work=kind, function=function, kind=kind, size=size, asked_at=0.0, ended_at=1.0, duration_ms=ms
    )


def records(sizes):
    """Tasks of 2 ms and 1 ms a rollout, 0.01 ms a row. Learners of the sizes."""
    return [
        item
        for round_ in range(ROUNDS)
        for item in (
            *(record(round_, "sample", "actor", 1.0, 3.0) for _ in range(ROLLOUTS)),
            *(record(round_, "learn", "learner", size, 2 + 0.01 * size) for size in sizes),
        )
    ]


def price(sizes, *settings, slots=1, plan=None):
    plan = plan or promising(make_plan(*SETTINGS, *settings), concurrency=slots)
    world = World(plan)
    state = world.finish()
    return cloud_dollars(plan, state, world.journal, records(sizes))


def test_price_is_same_for_any_slots_and_placement():
    # One learner of both groups. One for each. A half of each for each of four slots.
    by_slots = [
        price(sizes, "placement.rule=balanced", slots=slots)
        for slots, sizes in ((1, [2 * ROWS]), (2, [ROWS] * 2), (8, [ROWS / 2] * 4))
    ]
    others = [price([ROWS] * 2, f"placement.rule={rule}") for rule in ("split", "packed", "fused")]
    assert [*by_slots, *others] == pytest.approx([by_slots[0]] * 6, rel=1e-12)
    assert by_slots[0] > 0


def test_unmeasured_run_has_no_price_and_cloud_bill():
    plan = make_plan(*SETTINGS)
    assert price([2 * ROWS], plan=plan) is not None
    assert price([], plan=plan) is None
    assert price([2 * ROWS], plan=on_lambda(plan)) is None


@pytest.mark.parametrize(
    ("settings", "rule", "priced_as"),
    [
        ([], "auto", None),
        # The weights of this rule depend on prices, here a machine's prices.
        (["scaling.rule=tradeoff"], "auto", "balanced"),
        (["scaling.rule=tradeoff", "scaling.priced_as=split"], "auto", "split"),
        (["placement.rule=fused"], "fused", None),
        (["placement.pack=2"], "balanced", None),
        (["placement.inline_objects=true"], "balanced", None),
    ],
)
def test_default_cloud_placement_is_cheapest(settings, rule, priced_as):
    config = load(None, settings)
    placed = placed_in_cloud(config)
    assert (placed.placement.rule, placed.scaling.priced_as) == (rule, priced_as)
    same = msgspec.structs.replace(placed, placement=config.placement, scaling=config.scaling)
    assert same == config
