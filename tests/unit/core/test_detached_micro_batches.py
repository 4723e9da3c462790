"""A detached round that is summed micro-batch by micro-batch, whose tasks are awaited in many sets at once."""

import functools

import pytest
from detached_runs import SMALL, World
from driver import train

SUMMED = (
    "algorithm.epochs=1", "algorithm.num_minibatches=1", "actors.rollouts=3", "pipeline.micro_batch=1",
    "placement.rule=packed",
)  # fmt: skip


@functools.cache
def undisturbed():
    return World(*SUMMED).run()


def same(world):
    assert world.state.status == "finished"
    assert world.weights == undisturbed().weights
    assert world.state.final == undisturbed().state.final
    assert [line.metrics for line in world.journal] == [line.metrics for line in undisturbed().journal]


def test_it_has_the_weights_of_a_driven_run_and_no_time_passes_while_it_waits(tmp_path):
    assert undisturbed().weights == train(tmp_path / "run", [*SMALL, *SUMMED]).sha256
    # Time passes only where nobody was woken.
    assert undisturbed().now == 0.0
    works = [id.split("/", 2)[2] for id, _ in undisturbed().served if id.split("/")[1] == "000001"]
    assert sorted(works) == [
        "evaluate/000",
        *(f"grad/{number:05d}/all" for number in range(3)),
        "learn/all",
        *(f"sample/{number:05d}-{number:05d}" for number in range(3)),
    ]


def test_every_event_twice_changes_nothing():
    same(World(*SUMMED, twice=True).run())


STRIDES = pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.conformance)])


@STRIDES
@pytest.mark.parametrize("before", [False, True])
def test_a_death_at_any_write_or_event_changes_nothing(stride, before):
    for number in range(1, undisturbed().written + 1, stride):
        world = World(*SUMMED).run(deadly=-number if before else number)
        same(world)
        assert world.deaths == 1


@pytest.mark.slow
@pytest.mark.parametrize("stride", [6, pytest.param(1, marks=pytest.mark.conformance)])
def test_any_event_may_be_lost(stride):
    waited = 0
    for number in range(1, undisturbed().written + 1, stride):
        world = World(*SUMMED).run(dropped=number)
        same(world)
        waited += world.now > 0
    assert waited
