"""Loaded teams with recurrent policies, continuous actions or several choices play as players do."""

import numpy as np
import pytest
from drawn_policies import NUMBERS, SHARED, SPEC, by_agent, observed, seen_at, tensors_of

from marless.coordinator.errors import UserError
from marless.functions.environments.base import EnvTask
from marless.functions.policies import Player, Policy
from marless.reports.crossplay import _Match
from marless.reports.policy import TeamFile, TeamPolicy


@pytest.mark.parametrize("spec", [SPEC, NUMBERS], ids=["choices", "numbers and branches"])
def test_recurrent_team_plays_stepwise_and_forgets_at_start(spec):
    tensors, values = tensors_of(spec, SHARED, (16, 12)), observed(spec, 12, 5)
    loaded = TeamPolicy(TeamFile(task=EnvTask(name="toy/signal", agents=3), spec=spec, team=SHARED), tensors)
    player = Player(Policy(spec, SHARED, tensors), 5)
    for t in range(12):
        if t == 7:
            loaded.start()
            player.forget(np.ones(5, bool))
        seen = seen_at(values, t)
        expected = by_agent(spec, player.act(seen).env_actions)
        found = loaded.act(by_agent(spec, seen.values))
        for agent in spec.agents:
            np.testing.assert_allclose(found[agent], expected[agent], rtol=1e-4, atol=1e-5)


def test_one_observation_gives_one_action_of_its_kind():
    tensors = tensors_of(NUMBERS, SHARED, (16, 12))
    loaded = TeamPolicy(TeamFile(task=EnvTask(name="toy/signal", agents=3), spec=NUMBERS, team=SHARED), tensors)
    found = loaded.act({"a": np.ones(6), "b": np.ones(4)}, rng=np.random.default_rng(0))
    assert (found["a"].shape, found["a"].dtype) == ((2,), np.float32)
    assert (found["b"].shape, found["b"].dtype) == ((2,), np.int64)
    with pytest.raises(UserError, match=r"a began with 1 environments and got 3; call start\(\)"):
        loaded.act({"a": np.ones((3, 6))})


def test_random_opponents_act_evenly_within_their_bounds():
    class Still:
        spec, num_envs = NUMBERS, 4000

    match = _Match(Still(), None, "x", None, np.random.default_rng(1))
    numbers, branches = match._actions(seen_at(observed(NUMBERS, 1, 4000), 0))
    assert numbers.shape == (4000, 2, 2) and numbers.dtype == np.float32
    # Uniform on [-1, 1] and [0, 8]: means 0 and 4. Five standard errors of 8000 draws.
    assert np.abs(numbers.mean(axis=(0, 1)) - [0, 4]).max() < 5 * 8 / np.sqrt(12 * 8000)
    assert numbers[..., 0].min() < -0.99 and numbers[..., 1].max() > 7.9
    assert branches.shape == (4000, 1, 2)
    counts = np.bincount(branches[:, 0, 1], minlength=3)
    assert np.abs(counts - 4000 / 3).max() < 5 * np.sqrt(4000 * 2 / 9)
