"""Squashed Gaussians against torch's distributions and automatic differentiation, and policies that act by them."""

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from marless.functions.environments.base import AgentClass, EnvSpec, Observation
from marless.functions.errors import BadRequest
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.team import Team
from marless.functions.nn import heads
from marless.functions.nn.continuous import Bounds, Deterministic, Gaussian, SquashedGaussian, SquashedSample
from marless.functions.nn.recurrent import to_tensors
from marless.functions.nn.shape import Network
from marless.functions.policies import Policy

ROWS, NUMBERS = 200, 3
BOUNDS = Bounds((-1.0, 0.0), (1.0, 10.0))
KIND = AgentClass("n", (0,), 1, 2, low=BOUNDS.low, high=BOUNDS.high)


def case(seed=0):
    """Outputs, some with log standard deviations beyond the upper bound, and noise."""
    rng = np.random.default_rng(seed)
    outputs = rng.standard_normal((ROWS, 2 * NUMBERS))
    outputs[:20, NUMBERS:] += 4
    return rng, outputs, rng.standard_normal((ROWS, NUMBERS))


def reference(outputs, noise):
    mean, log_std = outputs.chunk(2, dim=-1)
    std, squash = log_std.clamp(-20, 2).exp(), TanhTransform(cache_size=1)
    action = squash(mean + std * torch.tensor(noise))
    return action, TransformedDistribution(Independent(Normal(mean, std), 1), [squash]).log_prob(action)


def test_samples_densities_and_gradients_are_those_of_torch():
    rng, outputs, noise = case()
    found, given = SquashedSample.of(outputs, noise), torch.tensor(outputs, requires_grad=True)
    action, density = reference(given, noise)
    np.testing.assert_allclose(found.actions, action.detach(), rtol=1e-12)
    np.testing.assert_allclose(found.log_probability, density.detach(), rtol=1e-10)
    grad_actions, grad_density = rng.standard_normal((ROWS, NUMBERS)), rng.standard_normal(ROWS)
    ((action * torch.tensor(grad_actions)).sum() + (density * torch.tensor(grad_density)).sum()).backward()
    np.testing.assert_allclose(found.backward(grad_actions, grad_density), given.grad, rtol=1e-8, atol=1e-10)
    assert (given.grad[:20, NUMBERS:] == 0).any()


def test_a_standard_deviation_has_a_least_value():
    # torch's own density is too inexact there: it divides rounding errors by 2e-9.
    _, outputs, noise = case()
    outputs[:, NUMBERS:] = -30
    found = SquashedSample.of(outputs, noise)
    np.testing.assert_allclose(found.actions, np.tanh(outputs[:, :NUMBERS] + np.exp(-20) * noise), rtol=1e-12)
    assert (found.backward(np.ones_like(noise), np.ones(ROWS))[:, NUMBERS:] == 0).all()


def test_saturated_samples_stay_finite_in_single_precision():
    outputs = np.array([[30.0, 0.0], [-30.0, 0.0], [0.0, 100.0], [0.0, -100.0]], np.float32)
    found = SquashedSample.of(outputs, np.full((4, 1), 3, np.float32))
    gradient = found.backward(np.ones((4, 1), np.float32), np.ones(4, np.float32))
    for array in (found.actions, found.log_probability, gradient):
        assert array.dtype == np.float32 and np.isfinite(array).all()
    assert (np.abs(found.actions) <= 1).all()
    # Far from 0 the density of tanh(u) gains 2 |u| - log 4 over the density of the sample.
    assert found.log_probability[0] == pytest.approx(-4.5 - 0.5 * np.log(2 * np.pi) + 2 * 33 - np.log(4), rel=1e-6)


def test_head_draws_samples_and_is_greedy_at_mean():
    head, (_, outputs, noise) = SquashedGaussian(Bounds((-1.0,) * NUMBERS, (1.0,) * NUMBERS)), case()
    actions, known = head.draw(outputs, None, noise)
    expected = SquashedSample.of(outputs, noise)
    assert actions.tobytes() == expected.actions.tobytes() and known.tobytes() == expected.log_probability.tobytes()
    np.testing.assert_allclose(head.greedy(outputs), np.tanh(outputs[:, :NUMBERS]), rtol=1e-12)
    assert head.width == outputs.shape[1] and head.noise((4, 5), np.random.default_rng(0)).shape == (4, 5, NUMBERS)
    with pytest.raises(BadRequest, match="noise is not for policies that draw numbers"):
        heads.require(head, Behaviour(kind="noise", amount=0.1))


@pytest.mark.parametrize(
    ("outputs", "log_std", "expected"),
    [(2, None, Deterministic(BOUNDS)), (2, np.zeros(2), Gaussian(BOUNDS)), (4, None, SquashedGaussian(BOUNDS))],
)
def test_numeric_network_has_head_of_its_outputs(outputs, log_std, expected):
    assert heads.head_of_network(KIND, outputs, log_std, clips_actions=False) == expected
    assert heads.outputs_of(KIND, outputs, log_std) == outputs


@pytest.mark.parametrize(("outputs", "log_std"), [(3, None), (6, None), (4, np.zeros(2))])
def test_no_other_width_fits_numbers(outputs, log_std):
    assert heads.outputs_of(KIND, outputs, log_std) != outputs


def test_choices_have_one_output_each():
    assert heads.outputs_of(AgentClass("c", (0,), 1, 2), 4, None) == 2


def policy_of(bias):
    network = Network((1, 2, len(bias)))
    tensors = to_tensors(network, np.zeros(network.parameters, np.float32), "policy/g00")
    tensors["policy/g00/b1"][:] = bias
    return Policy(EnvSpec(("a",), (KIND,), 5), Team(groups=(0,)), tensors)


def test_policy_acts_with_means_and_standard_deviations():
    count, bias = 50_000, (0.5, -1.0, -1.0, 0.0)
    seen = Observation((np.zeros((count, 1, 1), np.float32),), np.ones((count, 1), bool))
    noise = (np.random.default_rng(1).standard_normal((1, count, 2), dtype=np.float32),)
    choice = policy_of(bias).sample(seen, noise)
    drawn = np.arctanh(choice.actions[0][0].astype(np.float64))
    # Standard errors are std / sqrt(count), and less for the standard deviation.
    np.testing.assert_allclose(drawn.mean(axis=0), (0.5, -1.0), atol=5 / np.sqrt(count))
    np.testing.assert_allclose(drawn.std(axis=0), (np.exp(-1), 1), atol=5 / np.sqrt(count))
    np.testing.assert_allclose(
        choice.env_actions[0][:, 0, 1], 5 * (1 + choice.actions[0][0, :, 1]), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(policy_of(bias).greedy(seen)[0][0, 0], np.tanh([0.5, -1.0]), rtol=1e-6)


def test_policy_of_unfitting_width_is_refused():
    with pytest.raises(BadRequest, match="knows 3 actions; the task gives 1 numbers and 2 actions"):
        policy_of((0.0, 0.0, 0.0))
