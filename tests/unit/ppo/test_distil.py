"""Distilling several networks into one: gradients against automatic differentiation, steps against torch's Adam."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from marless.functions.algorithms.engine import AdamDescent
from marless.functions.algorithms.engines.numpy_engine import NumpyLossGradient
from marless.functions.algorithms.minibatches import Independent
from marless.functions.algorithms.ppo import distil
from marless.functions.algorithms.trainable import Trainable
from marless.functions.nn.adam import Adam
from marless.functions.nn.discrete import OneChoice
from marless.functions.nn.recurrent import views
from marless.functions.nn.shape import Network
from marless.functions.randomness import generator

NETWORK = Network((4, 6, 5, 3))
LEGAL = np.array([[1, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1]] * 4, dtype=bool)
LOGITS = npst.arrays(np.float64, (5, 4), elements=st.floats(-30, 30, width=32))


def pupil():
    """A network's parameters, inputs and a teacher's logits for them."""
    rng = np.random.default_rng(3)
    return rng.normal(size=NETWORK.parameters), rng.normal(size=(20, 4)), 3 * rng.normal(size=(20, 3))


def torch_outputs(flat, inputs):
    outputs, start = torch.tensor(inputs), 0
    for index, (rows, width) in enumerate(itertools.pairwise(NETWORK.sizes)):
        middle, end = start + rows * width, start + (rows + 1) * width
        outputs = outputs @ flat[start:middle].reshape(rows, width) + flat[middle:end]
        outputs = torch.tanh(outputs) if index < 2 else outputs
        start = end
    return outputs


def torch_divergence(logits, teacher, legal):
    allowed = torch.ones(logits.shape, dtype=torch.bool) if legal is None else torch.tensor(legal)
    log_t = torch.log_softmax(torch.tensor(teacher).masked_fill(~allowed, -1e9), dim=1)
    log_p = torch.log_softmax(logits.masked_fill(~allowed, -1e9), dim=1)
    return torch.nn.functional.kl_div(log_p, log_t, reduction="batchmean", log_target=True)


def imitation_error(logits, teacher, legal):
    """d mean(KL(teacher || student)) / d logits of one choice, from the tested lesson."""
    distil_target = distil.distil_target(OneChoice(logits.shape[1]), teacher, None, legal)
    return distil_target.loss(logits, None, np.arange(len(logits))).grad_output


@pytest.mark.parametrize("legal", [None, LEGAL], ids=["all legal", "masked"])
def test_policy_lesson_gradient_equals_automatic_differentiation(legal):
    flat, inputs, teacher = pupil()
    gradient = np.zeros_like(flat)
    trace = views(NETWORK, flat).forward(inputs)
    grad_output = imitation_error(trace.outputs, teacher, legal)
    views(NETWORK, flat).backward(trace, grad_output, views(NETWORK, gradient))
    parameters = torch.tensor(flat, requires_grad=True)
    loss = torch_divergence(torch_outputs(parameters, inputs), teacher, legal)
    loss.backward()
    np.testing.assert_allclose(gradient, parameters.grad.numpy(), rtol=0, atol=1e-13)
    found = distil.divergence(distil.log_probabilities(teacher, legal), distil.log_probabilities(trace.outputs, legal))
    assert found == pytest.approx(loss.item(), rel=1e-12)


def test_critic_lesson_gradient_equals_automatic_differentiation():
    rng = np.random.default_rng(5)
    values, aim = rng.normal(size=(7, 1)), rng.normal(size=(7, 1))
    variable = torch.tensor(values, requires_grad=True)
    (0.5 * torch.nn.functional.mse_loss(variable, torch.tensor(aim))).backward()
    np.testing.assert_allclose(distil.squared_error(values, aim), variable.grad.numpy(), rtol=1e-14)


def test_lessons_are_adams_steps_on_the_rows_named():
    flat, inputs, teacher = pupil()
    batches = distil.row_batches(len(inputs), 4, generator(1))[:, :6]
    parameters = torch.tensor(flat, requires_grad=True)
    reference = torch.optim.Adam([parameters], lr=0.05, eps=1e-5)
    student = Adam(flat, np.zeros_like(flat), np.zeros_like(flat), 0, 0.05, 1e-5, max_grad_norm=math.inf)
    distil_target = distil.distil_target(OneChoice(3), teacher, None, LEGAL)
    Trainable(AdamDescent(NumpyLossGradient(NETWORK, student.parameters), student)).learn(
        [Independent(inputs).part(rows) for rows in batches], distil_target.loss
    )
    for rows in batches:
        reference.zero_grad()
        torch_divergence(torch_outputs(parameters, inputs[rows]), teacher[rows], LEGAL[rows]).backward()
        reference.step()
    assert student.steps == 4
    np.testing.assert_allclose(flat, parameters.detach().numpy(), rtol=0, atol=1e-9)


def test_divergence_equals_hand_computation():
    # rows: (1/2, 1/2, -) to (1/4, 3/4, -), then equal ones. The third action is illegal in the first row
    teacher = np.log(np.array([[0.5, 0.5, 7.0], [0.2, 0.3, 0.5]]))
    found = np.log(np.array([[0.25, 0.75, 0.1], [0.2, 0.3, 0.5]]))
    legal = np.array([[True, True, False], [True, True, True]])
    divergence = distil.divergence(
        *(distil.log_probabilities(logits.astype(np.float32), legal) for logits in (teacher, found))
    )
    assert divergence == pytest.approx((0.5 * math.log(2) + 0.5 * math.log(2 / 3)) / 2, rel=1e-6)


def test_illegal_actions_are_not_taught():
    logits = np.random.default_rng(2).normal(size=LEGAL.shape).astype(np.float32)
    found = distil.log_probabilities(logits, LEGAL)
    assert np.isfinite(found).all()
    assert (np.exp(found)[~LEGAL] == 0).all()
    grad_output = imitation_error(logits, 2 * logits, LEGAL)
    assert (grad_output[~LEGAL] == 0).all()
    assert grad_output.dtype == np.float32


@given(LOGITS, LOGITS)
@settings(max_examples=40)
def test_only_equal_pupil_and_teacher_have_distance_zero(teacher, logits):
    log_t = distil.log_probabilities(teacher, None)
    again = distil.log_probabilities(teacher + 2.5, None)  # logits count up to a constant
    assert distil.divergence(log_t, again) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(imitation_error(teacher + 2.5, teacher, None), 0, atol=1e-13)
    # Pinsker: KL >= 2 TV²
    log_p = distil.log_probabilities(logits, None)
    variation = 0.5 * np.abs(np.exp(log_t) - np.exp(log_p)).sum(axis=1)
    assert distil.divergence(log_t, log_p) >= 2 * np.mean(variation**2) - 1e-12


@pytest.mark.parametrize(("rows", "steps"), [(512, 3), (1000, 5), (700, 1), (3, 4), (513, 0)])
def test_lessons_take_every_row_once_before_any_twice(rows, steps):
    batches = distil.row_batches(rows, steps, generator(7, "x"))
    assert batches.shape == (steps, min(512, rows))
    for order in np.split(batches.ravel(), np.arange(rows, batches.size, rows)):
        assert len(set(order.tolist())) == len(order)
    assert not batches.size or 0 <= batches.min() <= batches.max() < rows
    np.testing.assert_array_equal(batches, distil.row_batches(rows, steps, generator(7, "x")))
