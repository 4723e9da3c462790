"""The numpy policy against torch, and its draws against its distribution."""

import numpy as np
import pytest
import torch
from drawn_policies import ALONE, SHARED, SPEC, observation, weights
from scipy import stats

from marless.functions.environments.base import AgentClass, EnvSpec, Observation
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Team
from marless.functions.nn.discrete import draw
from marless.functions.policies import Policy, as_environment_actions

LAST = np.float32(1 - 2**-24)  # the largest float32 below 1


def in_torch(tensors, team, agent, values):
    if team.identity:
        one_hot = np.zeros((len(values), len(team.groups)), values.dtype)
        one_hot[:, agent] = 1
        values = np.concatenate([values, one_hot], axis=1)
    hidden, group = torch.tensor(values), f"policy/g{team.groups[agent]:02d}"
    for layer in range(3):
        hidden = hidden @ torch.tensor(tensors[f"{group}/w{layer}"]) + torch.tensor(tensors[f"{group}/b{layer}"])
        hidden = torch.tanh(hidden) if layer < 2 else hidden
    return hidden.numpy()


@pytest.mark.parametrize("team", [ALONE, SHARED], ids=["alone", "shared with identity"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_every_agents_logits_are_those_of_torch(dtype, tolerance, team):
    tensors, seen = weights(team, dtype), observation(dtype, 10_000)
    found = Policy(SPEC, team, tensors).logits(seen)
    for index, kind in enumerate(SPEC.classes):
        for position, agent in enumerate(kind.agents):
            expected = in_torch(tensors, team, agent, seen.values[index][:, position])
            assert found[index].dtype == dtype
            allowed = tolerance * (max(1.0, np.abs(expected).max()) if dtype == np.float32 else 1.0)
            np.testing.assert_allclose(found[index][position], expected, rtol=0, atol=allowed)


def test_agent_choice_has_same_bytes_with_any_neighbours():
    tensors, seen = weights(ALONE, np.float32), observation(np.float32, 160)
    uniforms = np.random.default_rng(2).random((2, 160), dtype=np.float32)
    together = Policy(SPEC, ALONE, tensors).sample(seen, (uniforms, np.zeros((1, 160), np.float32)))

    single = EnvSpec(("c",), (AgentClass("x", (0,), 6, 5),), horizon=1)
    own = {name.replace("g02", "g00"): tensor for name, tensor in tensors.items() if "g02" in name}
    values = np.ascontiguousarray(seen.values[0][:, 1:])
    alone = Policy(single, Team(groups=(0,)), own).sample(
        Observation((values,), np.ones((160, 1), bool)), (uniforms[1:],)
    )
    assert alone.actions[0].tobytes() == together.actions[0][1:].tobytes()
    assert alone.log_probability[0].tobytes() == together.log_probability[0][1:].tobytes()


def test_log_probabilities_are_those_of_the_masked_softmax():
    tensors, seen = weights(ALONE, np.float32), observation(np.float32, 2_000, masked=True)
    uniforms = tuple(np.random.default_rng(3).random((n, 2_000), dtype=np.float32) for n in (2, 1))
    choice = Policy(SPEC, ALONE, tensors).sample(seen, uniforms)
    for index, kind in enumerate(SPEC.classes):
        for position, agent in enumerate(kind.agents):
            logits = in_torch(tensors, ALONE, agent, seen.values[index][:, position])
            legal, taken = seen.masks[index][:, position], choice.actions[index][position]
            legal_logits = np.where(legal, logits, -np.inf).astype(np.float64)
            expected = torch.log_softmax(torch.tensor(legal_logits), dim=1).numpy()[np.arange(2_000), taken]
            assert legal[np.arange(2_000), taken].all()
            np.testing.assert_allclose(choice.log_probability[index][position], expected, rtol=1e-5, atol=1e-5)


def test_greedy_takes_the_most_probable_legal_action():
    tensors, seen = weights(SHARED, np.float32), observation(np.float32, 500, masked=True)
    chosen = Policy(SPEC, SHARED, tensors).greedy(seen)
    for index, kind in enumerate(SPEC.classes):
        for position, agent in enumerate(kind.agents):
            logits = in_torch(tensors, SHARED, agent, seen.values[index][:, position])
            expected = np.where(seen.masks[index][:, position], logits, -np.inf).argmax(axis=1)
            np.testing.assert_array_equal(chosen[index][position], expected)


def test_environments_get_actions_by_environment():
    (found,) = as_environment_actions((np.array([[1, 2, 3], [4, 5, 6]]),))
    np.testing.assert_array_equal(found, [[1, 4], [2, 5], [3, 6]])


@pytest.mark.parametrize(
    ("uniform", "action"), [(0.0, 0), (0.125, 0), (0.25, 1), (0.5, 1), (0.74, 1), (0.75, 2), (LAST, 2)]
)
def test_draw_is_first_action_with_cumulative_above_uniform(uniform, action):
    # Probabilities ¼, ½, ¼: the steps are at ¼ and ¾. The largest logit is 0, so the weights ½, 1, ½ are exact.
    actions, log_probability = draw(np.log(np.array([[[0.5, 1.0, 0.5]]])), np.array([[uniform]]))
    assert actions[0, 0] == action
    assert log_probability[0, 0] == pytest.approx(np.log([0.25, 0.5, 0.25][action]), rel=1e-12)


def test_draws_invert_the_distribution_function():
    rng = np.random.default_rng(4)
    logits, uniform = 3 * rng.standard_normal((3, 5_000, 6)), rng.random((3, 5_000))
    cumulative = torch.softmax(torch.tensor(logits), dim=-1).cumsum(dim=-1).numpy()
    expected = np.array(
        [np.searchsorted(c, u, side="right") for c, u in zip(cumulative.reshape(-1, 6), uniform.ravel(), strict=True)]
    )
    actions, _ = draw(logits.copy(), uniform)
    np.testing.assert_array_equal(actions.ravel(), expected)


def test_draws_are_distributed_as_the_softmax():
    probability = np.array([0.5, 0.05, 0.0, 0.2, 0.25])
    row = np.where(probability > 0, np.log(np.where(probability > 0, probability, 1)), -1e9)
    num_envs = 200_000
    uniform = np.random.default_rng(5).random((1, num_envs), dtype=np.float32)
    actions, _ = draw(np.tile(row, (1, num_envs, 1)).astype(np.float32), uniform)
    counts = np.bincount(actions.ravel(), minlength=5)
    assert counts[2] == 0
    legal = probability > 0
    assert stats.chisquare(counts[legal], num_envs * probability[legal]).pvalue > 0.01


@pytest.mark.parametrize("spread", [0.0, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("uniform", [np.float32(0), np.float32(2**-24), np.float32(0.5), LAST])
def test_an_illegal_action_is_never_drawn(spread, uniform):
    rng = np.random.default_rng(6)
    num_envs, actions = 20_000, 7
    legal = rng.random((1, num_envs, actions)) < 0.4
    legal[0, np.arange(num_envs), rng.integers(actions, size=num_envs)] = True
    logits = np.where(legal, (spread * rng.standard_normal(legal.shape)).astype(np.float32), np.float32(-1e9))
    chosen, log_probability = draw(logits, np.full((1, num_envs), uniform))
    assert np.take_along_axis(legal, chosen[..., None], axis=-1).all()
    assert np.isfinite(log_probability).all()


def test_policy_for_other_spaces_is_refused_by_name():
    other = EnvSpec(("a", "b", "c"), (AgentClass("x", (0, 2), 7, 5), AgentClass("y", (1,), 4, 3)), horizon=1)
    with pytest.raises(
        BadRequest, match="the policy of a takes 6 numbers and knows 5 actions; the task gives 7 numbers"
    ):
        Policy(other, ALONE, weights(ALONE, np.float32))
