"""The term of conservative Q-learning: by hand, against automatic differentiation, and its weight in a step."""

import math

import numpy as np
import pytest

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.algorithms.value.conservative import ConservativeGap
from marless.functions.data.replay_buffer import ReplayBuffer, RolloutKey
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.learner import stages
from marless.functions.messages.team import Team

PAIR = EnvSpec(agents=("a", "b"), classes=(AgentClass("all", (0, 1), 1, 2),), horizon=4)


def test_two_actions_are_worked_out_by_hand():
    """exp Q is 3 and 1, so the softmax is 3/4 and 1/4. Log 4 less the recorded action's 0."""
    gap = ConservativeGap.of(np.array([[math.log(3), 0.0]]), np.array([1]), None, np.array([True]))
    assert gap.mean == pytest.approx(math.log(4))
    np.testing.assert_allclose(gap.gradient, [[0.75, -0.75]])


def test_the_only_legal_action_has_no_gap():
    legal = np.array([[False, True]])
    gap = ConservativeGap.of(np.array([[7.0, 2.0]]), np.array([1]), legal, np.array([True]))
    assert gap.mean == 0 and not gap.gradient.any()


def test_the_gradient_is_that_of_automatic_differentiation():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values, actions = 3 * rng.standard_normal((3, 4, 5, 6)), rng.integers(6, size=(3, 4, 5))
    legal, counted = rng.random((3, 4, 5, 6)) < 0.6, rng.random((3, 4, 5)) < 0.7
    np.put_along_axis(legal, actions[..., None], True, axis=-1)
    q = torch.tensor(values, requires_grad=True)
    among = torch.where(torch.tensor(legal), q, -torch.inf)
    gaps = torch.logsumexp(among, -1) - torch.gather(q, -1, torch.tensor(actions)[..., None])[..., 0]
    gaps[torch.tensor(counted)].sum().backward()
    found = ConservativeGap.of(values, actions, legal, counted)
    np.testing.assert_allclose(found.gradient, q.grad.numpy(), atol=1e-12)
    assert found.mean == pytest.approx(gaps[torch.tensor(counted)].mean().item())


def still_rollout():
    """Four steps of two agents in one environment, without reward. The recorded actions are 0."""
    shape = (4, 1)
    return {
        "terminated": np.zeros((2, *shape), bool), "alive": np.ones((2, *shape), bool), "ended": np.zeros(shape, bool),
        "cut": np.array([[3, 0]]), "reward": np.zeros((2, *shape), np.float32),
        "observation/0": np.zeros((2, *shape, 1), np.float32), "cut_observation/0": np.zeros((2, 1, 1), np.float32),
        "action/0": np.zeros((2, *shape), np.int32),
    }  # fmt: skip


@pytest.mark.parametrize(("name", "groups", "weight"), [
    ("iql", (0, 1), 1), ("iql", (0, 0), 1), ("vdn", (0, 1), 1), ("vdn", (0, 0), 2), ("qmix", (0, 0), 2),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_step_has_row_mean_or_sum_over_side(name, groups, weight, engine):
    """All values are 0: the softmax is 1/2, and only this term pulls at the action that was not taken."""
    if engine == "torch":
        pytest.importorskip("torch")
    settings = {
        "hidden": [2], "cql_alpha": 4.0, "updates_per_round": 1, "batch_size": 8, "engine": engine,
        "standardise_rewards": False, "max_grad_norm": 1e6,
    }  # fmt: skip
    algorithm = algorithms.algorithm(name)
    code, config = algorithms.implementation(algorithm), algorithms.configuration(algorithm, settings).resolved(PAIR)
    team, tensors = Team(groups=groups), {}
    for group in sorted(set(groups)):
        tensors |= code.initialise(PAIR, team, config, 1, group)
    zero = ("policy/", "target/")
    tensors = {key: 0 * array if key.startswith(zero) else array for key, array in tensors.items()}
    replay_buffer = ReplayBuffer(PAIR)
    replay_buffer.load([RolloutKey(0, 0, "x")], lambda missing: {missing[0]: still_rollout()})
    batch = replay_buffer.segments(np.zeros(1, int))
    context = Context(PAIR, team, config, 7, 0, batch, tensors, replay_buffer)
    spec = algorithm.without(config.idle_parts)
    share = Share([stage.name for stage in spec.stages], sorted(set(groups)), range(1))
    found = stages.run(spec, code, context, share)
    # Adam's first moment is a tenth of the gradient. The last parameter is the bias of the action not taken.
    assert found.tensors["policy_optimiser/g00/first"][-1] == pytest.approx(0.1 * 4.0 * 0.5 * weight, rel=1e-6)
    gaps = [value for key, value in found.metrics.items() if "conservative_gap" in key]
    assert gaps == pytest.approx([math.log(2)] * len(set(groups)), rel=1e-6)
