"""Rewards by hand of three environments from imagination, and random play in these and an outsider's."""

import numpy as np
import pytest

from benchmarks.imagined import raft, ring_road, vault
from benchmarks.outsider import buckets, kettle, locks
from marless.functions.environments.base import EnvTask
from marless.testing.environment_trial import hold


def made(module, agents):
    game = module.make(EnvTask(name="imagined/any", agents=agents), 1)
    game.reset(np.random.default_rng(1))
    return game


def test_vault_pays_all_with_two_outside_one_inside():
    game = made(vault, 3)
    game.cells[0] = [[0, 0], [4, 4], [2, 1]]
    outside, inside = (game.step((np.array([[0, 0, move]]),)) for move in (0, 1))
    assert not outside.rewards.any() and not outside.ended[0]
    assert inside.rewards.tolist() == [[1, 1, 1]] and inside.ended[0]


def test_car_that_is_too_near_stops_without_pay():
    game = made(ring_road, 2)
    game.gaps, game.speeds = np.array([[0.6, 1.4]]), np.array([[1.0, 0.0]])
    assert game.step((np.array([[1, 1]]),)).rewards.tolist() == [[0, 0]]
    assert game.gaps == pytest.approx(np.array([[0.4, 1.6]])) and not game.speeds.any()


@pytest.mark.parametrize(("force", "paid"), [((1, 0), -0.9), ((0, 1), -np.hypot(1, 0.1) - 0.1 * 0.1)])
def test_raft_reward_is_distance_moved_and_turned(force, paid):
    game = made(raft, 1)
    game.way, game.drift, game.angle = np.array([[1.0, 0.0]]), np.zeros((1, 2)), np.zeros(1)
    assert game.step((np.array([[force]], np.float32),)).rewards[0, 0] == pytest.approx(paid)


@pytest.mark.parametrize("module", [buckets, kettle, locks, raft, ring_road, vault])
def test_random_play_repeats_without_a_fault(module):
    task = EnvTask(name="imagined/any")
    trial = hold(module.make(task, 4), lambda: module.make(task, 4))
    assert (trial.fault, trial.outside, trial.unseeded, trial.leftover) == ("", "", "", "")
