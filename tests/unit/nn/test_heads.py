"""Heads against torch's distributions and automatic differentiation, and their samples against theory."""

import numpy as np
import pytest
import torch
from scipy import stats

from marless.functions.environments.base import AgentClass
from marless.functions.errors import BadRequest
from marless.functions.messages.actor import Behaviour
from marless.functions.nn import heads
from marless.functions.nn.continuous import Bounds, Deterministic, Gaussian
from marless.functions.nn.discrete import Branches, OneChoice, epsilon_greedy

SIZES = (3, 2, 4)
BOUNDS = Bounds((-1.0, 0.0, -3.0), (1.0, 10.0, -1.0))
ROWS = 500
LAST = np.float32(1 - 2**-24)  # the largest float32 below 1


def one_choice(outputs, log_std):
    return torch.distributions.Categorical(logits=outputs)


class Joint:
    """Several independent choices, with the interface of a torch distribution."""

    def __init__(self, outputs):
        self.parts = [torch.distributions.Categorical(logits=part) for part in outputs.split(SIZES, dim=-1)]

    def log_prob(self, actions):
        return sum(part.log_prob(actions[..., i]) for i, part in enumerate(self.parts))

    def entropy(self):
        return sum(part.entropy() for part in self.parts)


def gaussian(outputs, log_std):
    return torch.distributions.Independent(torch.distributions.Normal(outputs, log_std.exp()), 1)


KINDS = {
    "one choice": (OneChoice(5), one_choice),
    "branches": (Branches(SIZES), lambda outputs, log_std: Joint(outputs)),
    "gaussian": (Gaussian(BOUNDS), gaussian),
}


def case(name, masked=False, seed=0):
    """Random outputs, own parameters and actions in float64, with the head's counterpart in torch."""
    head, reference = KINDS[name]
    rng = np.random.default_rng(seed)
    outputs = 3 * rng.standard_normal((ROWS, head.width))
    if masked:
        legal = rng.random(outputs.shape) < 0.6
        legal[:, [0, 3] if name == "one choice" else [0, 3, 5]] = True  # the first action of every branch
        outputs = np.where(legal, outputs, -1e9)
    log_std = rng.standard_normal(head.log_std_size) - 0.5 if head.log_std_size else None
    noise = head.noise((1, ROWS), rng)
    return head, reference, outputs, log_std, head.draw(outputs[None], log_std, noise)[0][0]


def in_torch(reference, outputs, log_std):
    outputs = torch.tensor(outputs, requires_grad=True)
    log_std = None if log_std is None else torch.tensor(log_std, requires_grad=True)
    return reference(outputs, log_std), outputs, log_std


ALL = [("one choice", False), ("one choice", True), ("branches", False), ("branches", True), ("gaussian", False)]


@pytest.mark.parametrize(("name", "masked"), ALL)
def test_log_probabilities_and_gradients_equal_torch(name, masked):
    head, reference, outputs, log_std, actions = case(name, masked)
    expected, at_outputs, at_log_std = in_torch(reference, outputs, log_std)
    probable = expected.log_prob(torch.tensor(actions))
    found = head.log_probability(outputs, log_std, actions)
    assert found.shape == (ROWS,)
    np.testing.assert_allclose(found, probable.detach().numpy(), rtol=1e-12, atol=1e-12)
    weight = np.random.default_rng(1).standard_normal(ROWS)
    (probable * torch.tensor(weight)).sum().backward()
    gradient, log_std_grad = head.log_probability_gradient(outputs, log_std, actions)
    np.testing.assert_allclose(weight[:, None] * gradient, at_outputs.grad.numpy(), rtol=1e-10, atol=1e-12)
    if log_std is None:
        assert log_std_grad is None
    else:
        np.testing.assert_allclose(weight @ log_std_grad, at_log_std.grad.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("name", "masked"), ALL)
def test_entropies_and_their_gradients_are_those_of_torch(name, masked):
    head, reference, outputs, log_std, _ = case(name, masked)
    expected, at_outputs, at_log_std = in_torch(reference, outputs, log_std)
    entropy = expected.entropy()
    found = head.entropy(outputs, log_std)
    assert found.shape == (ROWS,)
    np.testing.assert_allclose(found, entropy.detach().numpy(), rtol=1e-12, atol=1e-12)
    weight = np.random.default_rng(1).standard_normal(ROWS)
    (entropy * torch.tensor(weight)).sum().backward()
    gradient, log_std_grad = head.entropy_gradient(outputs, log_std)
    wanted = np.zeros_like(outputs) if at_outputs.grad is None else at_outputs.grad.numpy()
    np.testing.assert_allclose(weight[:, None] * gradient, wanted, rtol=1e-10, atol=1e-12)
    if log_std is not None:
        np.testing.assert_allclose(weight @ log_std_grad, at_log_std.grad.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", KINDS)
def test_draw_reports_log_probability_of_drawn_action(name):
    head, _, outputs, log_std, _ = case(name)
    actions, probable = head.draw(outputs[None], log_std, head.noise((1, ROWS), np.random.default_rng(2)))
    np.testing.assert_allclose(probable, head.log_probability(outputs[None], log_std, actions), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KINDS)
def test_learned_values_have_precision_of_outputs(name, dtype):
    head, _, outputs, log_std, actions = case(name)
    outputs, log_std = outputs.astype(dtype), None if log_std is None else log_std.astype(dtype)
    actions = actions.astype(dtype) if head.log_std_size else actions
    gradients = [*head.log_probability_gradient(outputs, log_std, actions), *head.entropy_gradient(outputs, log_std)]
    found = [head.log_probability(outputs, log_std, actions), head.entropy(outputs, log_std), *gradients]
    assert {array.dtype for array in found if array is not None} == {np.dtype(dtype)}


def test_branches_are_drawn_independently_each_as_its_softmax():
    num_envs = 200_000
    probability = [np.array([0.5, 0.2, 0.3]), np.array([0.9, 0.1]), np.array([0.1, 0.2, 0.0, 0.7])]
    row = np.log(np.maximum(np.concatenate(probability), 1e-300))
    row = np.where(np.concatenate(probability) > 0, row, -1e9)
    head = Branches(SIZES)
    noise = head.noise((1, num_envs), np.random.default_rng(3))
    actions, _ = head.draw(np.tile(row, (1, num_envs, 1)).astype(np.float32), None, noise)
    assert actions.shape == (1, num_envs, 3)
    counts = np.zeros(SIZES)
    np.add.at(counts, tuple(actions[0].T), 1)
    expected = num_envs * np.einsum("i,j,k->ijk", *probability)
    assert counts[expected == 0].sum() == 0
    assert stats.chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 0.01


def test_numbers_are_drawn_from_gaussian_of_outputs():
    head, num_envs = Gaussian(BOUNDS), 100_000
    mean, log_std = np.array([0.5, -2.0, 0.0]), np.array([-1.0, 0.0, 0.7])
    noise = head.noise((1, num_envs), np.random.default_rng(4))
    actions, _ = head.draw(np.tile(mean, (1, num_envs, 1)), log_std, noise)
    for i in range(3):
        assert stats.kstest(actions[0, :, i], stats.norm(mean[i], np.exp(log_std[i])).cdf).pvalue > 0.01
    # Correlations of independent numbers have the standard deviation 1/√n.
    correlation = np.corrcoef(actions[0].T) - np.eye(3)
    assert np.abs(correlation).max() < 4 / np.sqrt(num_envs)


def test_most_probable_actions_are_branch_maxima_and_means():
    outputs = np.array([[[1.0, 3.0, 2.0, 0.0, -1.0, 5.0, 5.0, 2.0, 1.0]]])
    np.testing.assert_array_equal(Branches(SIZES).greedy(outputs), [[[1, 0, 0]]])
    np.testing.assert_array_equal(OneChoice(9).greedy(outputs), [[5]])
    means = np.array([[[0.5, -2.0, 0.0]]])
    np.testing.assert_array_equal(Gaussian(BOUNDS).greedy(means), means)
    np.testing.assert_allclose(Deterministic(BOUNDS).greedy(means), np.tanh(means))


def test_numbers_reach_the_environment_between_its_bounds():
    # -1 is low, 0 the middle, 1 high. Before tanh that is far below, 0 and far above.
    expected = [[-1.0, 0.0, -3.0], [0.0, 5.0, -2.0], [1.0, 10.0, -1.0]]
    for head, far in ((Deterministic(BOUNDS), 1.0), (Gaussian(BOUNDS), 50.0)):
        found = head.to_environment(np.repeat([[-far], [0.0], [far]], 3, axis=1))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.array(expected, np.float32))
    half = Gaussian(BOUNDS).to_environment(np.full((1, 3), np.arctanh(0.5)))  # three quarters of the way
    np.testing.assert_allclose(half, [[0.5, 7.5, -1.5]], rtol=1e-6)


def test_clipped_numbers_are_draws_within_bounds():
    head = Gaussian(BOUNDS, clips_actions=True)
    found = head.to_environment(np.repeat([[-1.2], [-1.0], [0.0], [0.5], [1.0], [7.0]], 3, axis=1))
    low, middle, high = [-1.0, 0.0, -3.0], [0.0, 5.0, -2.0], [1.0, 10.0, -1.0]
    np.testing.assert_array_equal(found, np.array([low, low, middle, [0.5, 7.5, -1.5], high, high], np.float32))


def test_no_number_leaves_the_bounds_by_rounding():
    rng = np.random.default_rng(5)
    low = np.append(rng.uniform(-1, 1, 200), -3e38).astype(np.float32)
    high = np.append(low[:-1] + rng.uniform(1e-3, 9, 200), 3e38).astype(np.float32)
    head = Deterministic(Bounds(tuple(low.tolist()), tuple(high.tolist())))
    squashed = np.concatenate([[-1, 1, 1 - 2**-24, 2**-24 - 1], rng.uniform(-1, 1, 1000)]).astype(np.float32)
    found = head.to_environment(np.repeat(squashed[:, None], 201, axis=1))
    assert (found >= low).all()
    assert (found <= high).all()
    np.testing.assert_array_equal(found[:2], [low, high])


def test_squashed_ratios_equal_ratios_before_tanh():
    head, _, means, log_std, actions = case("gaussian")
    moved, wider = means + 0.3, log_std + 0.2
    squash = torch.distributions.transforms.TanhTransform(cache_size=1)
    raw = torch.tensor(np.clip(actions, -3, 3))
    squashed = squash(raw)

    def density(mean, log_std):
        normal = torch.distributions.Normal(torch.tensor(mean), torch.tensor(log_std).exp())
        return torch.distributions.TransformedDistribution(normal, [squash]).log_prob(squashed).sum(-1)

    wanted = (density(moved, wider) - density(means, log_std)).numpy()
    found = head.log_probability(moved, wider, raw.numpy()) - head.log_probability(means, log_std, raw.numpy())
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_a_deterministic_policys_gradient_passes_through_tanh():
    outputs = np.random.default_rng(6).standard_normal((50, 3))
    grad_output = np.random.default_rng(7).standard_normal((50, 3))
    head = Deterministic(BOUNDS)
    reference = torch.tensor(outputs, requires_grad=True)
    (torch.tanh(reference) * torch.tensor(grad_output)).sum().backward()
    found = head.greedy_gradient(head.greedy(outputs), grad_output)
    np.testing.assert_allclose(found, reference.grad.numpy(), rtol=1e-12)


def act(head, outputs, log_std, noise, kind, amount, legal=None):
    return heads.act(head, outputs, log_std, noise, Behaviour(kind=kind, amount=amount), legal)


def test_noise_on_numbers_is_cut_at_bounds():
    outputs = np.arctanh(np.array([[[0.5, -0.5, 0.9]]]))
    found, probable = act(Deterministic(BOUNDS), outputs, None, np.array([[[1.0, -3.0, 2.0]]]), "noise", 0.2)
    np.testing.assert_allclose(found, [[[0.7, -1.0, 1.0]]])
    assert probable is None


def test_choices_explore_by_distribution_next_to_noise():
    rng = np.random.default_rng(0)
    for head in (OneChoice(3), Branches(SIZES)):
        outputs, luck = rng.standard_normal((2, 5, head.width)), head.noise((2, 5), rng)
        found, probable = act(head, outputs, None, luck, "noise", 0.2)
        drawn, expected = head.draw(outputs, None, luck)
        np.testing.assert_array_equal(found, drawn)
        np.testing.assert_array_equal(probable, expected)


def test_deterministic_policies_draw_what_they_always_give():
    outputs = np.array([[[0.5, -0.5, 0.9]]])
    found, probable = act(Deterministic(BOUNDS), outputs, None, np.ones((1, 1, 3)), "sample", 0.0)
    np.testing.assert_allclose(found, np.tanh(outputs))
    assert probable is None


LEGAL = np.array([True, False, True, True, False, True])
VALUES = np.array([0.0, 9.0, 2.0, 7.0, 8.0, 1.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_epsilon_greedy_takes_legal_actions_as_often_expected(dtype):
    # A thousand uniforms in the middle of a thousand equal intervals: 300 explore, 75 for each of four legal actions.
    uniform = ((np.arange(1000) + 0.5) / 1000).astype(dtype)[None]
    values = np.where(LEGAL, VALUES, -1e9)
    found, probable = act(
        OneChoice(6), np.tile(values, (1, 1000, 1)), None, uniform, "epsilon", 0.3, np.tile(LEGAL, (1, 1000, 1))
    )
    assert probable is None
    np.testing.assert_array_equal(np.bincount(found[0], minlength=6), [75, 0, 75, 775, 0, 75])
    # The uniforms that explore select the actions in order.
    np.testing.assert_array_equal(found[0, :300], np.repeat([0, 2, 3, 5], 75))
    free, _ = act(OneChoice(6), np.tile(VALUES, (1, 1000, 1)), None, uniform, "epsilon", 0.3)
    np.testing.assert_array_equal(np.bincount(free[0], minlength=6), [50, 750, 50, 50, 50, 50])


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1 / 3, 0.5, 0.7, 1.0])
def test_epsilon_greedy_never_takes_an_illegal_action(epsilon):
    rng = np.random.default_rng(8)
    edge = np.float32(epsilon)
    ends = [0, 2**-24, np.nextafter(edge, np.float32(0)), min(edge, LAST), LAST]
    num_envs = 20_000
    legal = rng.random((5, num_envs, 7)) < 0.3
    legal[np.arange(5)[:, None], np.arange(num_envs), rng.integers(7, size=(5, num_envs))] = True
    uniform = rng.random((5, num_envs), dtype=np.float32)
    uniform[:, ::3] = np.array(ends, np.float32)[:, None]
    values = np.where(legal, rng.standard_normal(legal.shape), -1e9)
    found = epsilon_greedy(values, uniform, epsilon, legal)
    assert np.take_along_axis(legal, found[..., None], axis=-1).all()


def test_without_epsilon_the_highest_value_is_taken_always():
    uniform = np.array([[0.0, 0.5, LAST]], np.float32)
    found = epsilon_greedy(np.tile(VALUES, (1, 3, 1)), uniform, 0.0, None)
    np.testing.assert_array_equal(found, [[1, 1, 1]])


@pytest.mark.parametrize(
    ("head", "kind", "message"),
    [
        (Branches(SIZES), "epsilon", "epsilon is for agents that make one choice only"),
        (Gaussian(BOUNDS), "epsilon", "epsilon is for agents that make one choice only"),
        (Gaussian(BOUNDS), "noise", "noise is not for policies that draw numbers from a distribution"),
    ],
)
def test_behaviour_that_head_lacks_is_refused(head, kind, message):
    outputs = np.zeros((1, 1, head.width))
    log_std = np.zeros(head.log_std_size) if head.log_std_size else None
    with pytest.raises(BadRequest, match=message):
        act(head, outputs, log_std, head.noise((1, 1), np.random.default_rng(0)), kind, 0.1)


def test_a_class_has_the_head_of_its_actions():
    numbers = AgentClass("n", (0,), 4, 2, low=(-1.0, 0.0), high=(1.0, 2.0))
    assert heads.head_of(AgentClass("c", (0,), 4, 5), stochastic=False) == OneChoice(5)
    assert heads.head_of(AgentClass("b", (0,), 4, 5, branches=(2, 3)), stochastic=False) == Branches((2, 3))
    assert heads.head_of(numbers, stochastic=True) == Gaussian(Bounds((-1.0, 0.0), (1.0, 2.0)))
    assert heads.head_of(numbers, stochastic=False) == Deterministic(Bounds((-1.0, 0.0), (1.0, 2.0)))
    assert heads.distribution(numbers) == heads.head_of(numbers, stochastic=True)
