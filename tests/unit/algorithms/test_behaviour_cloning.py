"""The losses of behaviour cloning: worked out by hand, and against automatic differentiation."""

import math

import numpy as np
import pytest
import synthetic

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.imitation.bc import cross_entropy, squared_error
from marless.functions.algorithms.specification import Share
from marless.functions.learner import stages
from marless.functions.nn.discrete import Branches, OneChoice


def test_two_actions_are_worked_out_by_hand():
    """Probabilities 3/4 and 1/4. The second was taken."""
    loss = cross_entropy(OneChoice(2), np.array([[math.log(3), 0.0]]), np.array([1]), None)
    np.testing.assert_allclose(loss.rows, [math.log(4)])
    np.testing.assert_allclose(loss.grad_output, [[0.75, -0.75]])


def test_a_number_is_worked_out_by_hand():
    """An output of 0 plays 0, where 0.5 was recorded: the slope of tanh is 1."""
    loss = squared_error(np.zeros((1, 1)), np.array([[0.5]]))
    np.testing.assert_allclose(loss.rows, [0.25])
    np.testing.assert_allclose(loss.grad_output, [[-1.0]])


def test_an_illegal_action_has_neither_probability_nor_gradient():
    loss = cross_entropy(OneChoice(3), np.array([[9.0, 0.0, 0.0]]), np.array([1]), np.array([[False, True, True]]))
    np.testing.assert_allclose(loss.rows, [math.log(2)])
    np.testing.assert_allclose(loss.grad_output, [[0.0, -0.5, 0.5]], atol=1e-12)


def test_group_without_living_agent_learns_nothing():
    def without(spec, rollout):
        lives = np.array([True, False, True])[:, None, None]
        return rollout | {name: rollout[name] & lives for name in ("alive", "terminated")}

    context, algorithm = synthetic.context("bc", synthetic.spec("numbers"), {"hidden": [4]}, changed=without)
    code = algorithms.implementation(algorithm)
    tensors, metrics, _ = stages.run(algorithm, code, context, Share(["policy"], [0, 1]))
    before = {name: array for name, array in context.tensors.items() if "/g01" in name}
    for name, array in before.items():
        np.testing.assert_array_equal(tensors[name], array, err_msg=name)
    assert before and metrics["policy/imitation_loss/g01"] == metrics["policy/policy_grad_norm/g01"] == 0
    assert not np.array_equal(tensors["policy/g00/w0"], context.tensors["policy/g00/w0"])


def test_gradients_are_those_of_automatic_differentiation():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    outputs = rng.standard_normal((7, 5))
    several = np.stack([rng.integers(3, size=7), rng.integers(2, size=7)], axis=1)
    numbers = rng.uniform(-1, 1, (7, 5))
    entropy = torch.nn.functional.cross_entropy
    cases = [
        (cross_entropy(OneChoice(5), outputs, several[:, 0], None), lambda x: entropy(x, torch.tensor(several[:, 0]))),
        (
            cross_entropy(Branches((3, 2)), outputs, several, None),
            lambda x: entropy(x[:, :3], torch.tensor(several[:, 0])) + entropy(x[:, 3:], torch.tensor(several[:, 1])),
        ),
        (squared_error(outputs, numbers), lambda x: ((x.tanh() - torch.tensor(numbers)) ** 2).sum(1).mean()),
    ]
    for found, loss in cases:
        x = torch.tensor(outputs, requires_grad=True)
        value = loss(x)
        value.backward()
        np.testing.assert_allclose(found.grad_output, x.grad.numpy(), atol=1e-12)
        assert found.rows.mean() == pytest.approx(value.item())
