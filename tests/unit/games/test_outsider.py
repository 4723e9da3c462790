"""Rewards by hand of three environments that an outsider brings along."""

import numpy as np
import pytest

from benchmarks.outsider import buckets, kettle, locks
from marless.functions.environments.base import EnvTask


def made(module, agents):
    game = module.make(EnvTask(name="outsider/any", agents=agents), 1)
    game.reset(np.random.default_rng(1))
    return game


def test_barge_is_in_lake_after_five_steps():
    game = made(locks, 2)
    game.water[:] = 1
    steps = [game.step((np.array([pair]),)) for pair in ([1, 2], [3, 0], [0, 1], [0, 1], [0, 3])]
    assert [(*step.rewards[0], step.ended[0]) for step in steps] == [(0, 0, False)] * 4 + [(1, 1, True)]


def test_gate_empties_lock_if_next_is_not_low():
    game = made(locks, 2)
    game.water[:] = [2, 1]
    game.step((np.array([[3, 2]]),))
    assert game.water.tolist() == [[0, 0]] and game.barge == 0


def test_buckets_are_emptied_every_second_step():
    game = made(buckets, 8)
    game.full[:], game.fire[:] = [[False] * 8], 7
    # Full buckets go right along the first row, then down to the fire. Empty ones come back.
    ahead, back = np.array([5, 5, 5, 3, 0, 0, 0, 1]), np.array([1, 4, 4, 4, 0, 0, 0, 2])
    steps = [game.step((np.where(game.full, ahead, back),)) for _ in range(60)]
    # The first bucket needs a step at the well, four swaps and a step at the fire: steps 6, 8, 10 ... 60.
    assert sum(step.rewards for step in steps).tolist() == [[28] * 8] and steps[-1].truncated[0]


# 10 litres from 10 to 65 °C need 10 * 55 * 4.186 / 60 kW. 20 cold litres in 80 of 60 °C make 100 of 50 °C.
@pytest.mark.parametrize(("flow", "degrees", "power", "paid"), [(10, 65, 38.3717, 0), (20, 60, 0, -11.5)])
def test_kettle_pays_for_warmth_and_flow(flow, degrees, power, paid):
    game = made(kettle, 2)
    game.litres[:], game.wanted[:], game.degrees[:], game.power[:] = 100, 10, degrees, power
    step = game.step((np.full((1, 1, 2), flow, np.float32), np.full((1, 1, 1), power, np.float32)))
    assert step.rewards == pytest.approx(np.full((1, 2), paid), abs=1e-4)
