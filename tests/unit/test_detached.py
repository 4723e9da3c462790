"""A detached run ends with the same bytes whatever becomes of its events and its functions."""

import functools
import sys
from pathlib import Path

import pytest
from detached_runs import SMALL, World

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chaos"))
from driver import train

PLACEMENTS = ("split", "fused", "packed", "whole")


@functools.cache
def undisturbed(placement="fused"):
    return World(f"placement.rule={placement}").run()


def same(world, expected):
    """What may never differ: weights, final returns, figures of the rounds but time and money."""
    assert world.state.status == "finished"
    assert world.weights == expected.weights
    assert world.state.final == expected.state.final
    assert world.state.absolute == expected.state.absolute
    assert [line.return_mean for line in world.journal] == [line.return_mean for line in expected.journal]
    assert [line.round for line in world.journal] == [1, 2]


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_detached_run_has_the_weights_of_one_that_is_driven(placement, tmp_path):
    driven = train(tmp_path / "run", [*SMALL, f"placement.rule={placement}"])
    assert undisturbed(placement).weights == driven.sha256
    assert undisturbed(placement).state.final == driven.state.final


def test_every_event_twice_changes_nothing():
    world = World(twice=True).run()
    same(world, undisturbed())
    assert max(world.served.values()) >= 2


def events(placement="fused"):
    return range(1, undisturbed(placement).written + 1)


@pytest.mark.parametrize("placement", ["fused", "whole"])
def test_a_death_after_any_write_or_event_changes_nothing(placement):
    for number in events(placement):
        world = World(f"placement.rule={placement}").run(deadly=number)
        same(world, undisturbed(placement))
        assert world.deaths == 1


@pytest.mark.parametrize("placement", ["fused", "whole"])
def test_a_death_before_any_write_or_event_changes_nothing(placement):
    for number in events(placement):
        world = World(f"placement.rule={placement}").run(deadly=-number)
        same(world, undisturbed(placement))
        assert world.deaths == 1


def test_any_event_may_be_dropped():
    dropped = 0
    for number in events():
        world = World().run(dropped=number)
        same(world, undisturbed())
        dropped += world.now > 0
    assert dropped > 10
