"""Merging recurrent policies and every kind of action, against the same policies in torch."""

import dataclasses

import numpy as np
import pytest
import synthetic
import torch
from plain_ppo import Group

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.group_inputs import starts, with_identity
from marless.functions.algorithms.ppo import distil
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent
from marless.functions.nn.continuous import Bounds, Gaussian
from marless.functions.nn.discrete import Branches
from marless.functions.nn.networks import unroll
from marless.functions.nn.normaliser import Normaliser

ALONE, MERGED = Team(groups=(0, 1, 2), identity=True), Team(groups=(0, 1, 0), identity=True)
CASES = [
    ("one choice", True),
    ("several choices", False),
    ("several choices", True),
    ("numbers", False),
    ("numbers", True),
]
ALL = pytest.mark.parametrize(("kind", "remembers"), CASES)


def scene(kind, remembers):
    """Separate networks for every agent, with policies, critics and normalisers that differ."""
    made = synthetic.spec(kind, masked=kind != "numbers")
    settings = {"hidden": [12, 12], "recurrent": remembers}
    context, algorithm = synthetic.context("ippo", made, settings, precision=np.float32)
    code, state = algorithms.implementation(algorithm), {}
    for group in (0, 1, 2):
        state |= code.initialise(made, ALONE, context.config, 3, group)
        state[f"normaliser/g{group:02d}"] = np.array([group, 3.0 + 2 * group, 1.0])
    # Initial policies are nearly uniform for every observation. A larger last layer makes them differ.
    last, scale = ("w1", 400) if remembers else ("w2", 60)
    state |= {key: scale * array for key, array in state.items() if key.startswith("policy/") and key.endswith(last)}
    if kind == "numbers":
        state["policy/g00/log_std"] = np.array([-1.0, 0.3], np.float32)
    return dataclasses.replace(context, team=ALONE, tensors=state), code


def outputs_of(context, tensors, group, agent):
    """In torch, single precision: the policy's outputs for the agent's living rows, and its deviations."""
    plain = Group(dataclasses.replace(context, tensors=tensors, team=MERGED), algorithms.algorithm("ippo"), 0)
    network = type(plain.policy)(tensors, "policy", f"g{group:02d}", context.config)
    batch = context.batch
    begins = torch.ones(batch.ended.shape, dtype=torch.bool)
    begins[1:] = torch.tensor(batch.ended[:-1])
    inputs = torch.cat(
        [torch.tensor(batch.of(batch.observations, agent)), torch.eye(3)[agent].expand(*batch.ended.shape, 3)], dim=-1
    )
    with torch.no_grad():
        outputs = network.unrolled(inputs, begins, network.empty(batch.ended.shape[1]).float())[0]
    return outputs[torch.tensor(batch.alive[agent])].double(), network.named.get("log_std")


def divergence(context, new):
    """Mean KL of every member's old policy from the merged one, by torch.distributions."""
    found, batch = [], context.batch
    for agent in (0, 2):
        (teacher, taught_std), (got, got_std) = (
            outputs_of(context, tensors, group, agent)
            for tensors, group in ((context.tensors, agent), ({**context.tensors, **new}, 0))
        )
        if taught_std is not None:
            old, now = (
                torch.distributions.Normal(mean, std.detach().double().exp())
                for mean, std in ((teacher, taught_std), (got, got_std))
            )
            found.append(torch.distributions.kl_divergence(old, now).sum(dim=1))
            continue
        legal = torch.tensor(batch.of(batch.masks, agent)[batch.alive[agent]])
        total, sizes = 0, context.spec.classes[0].branches or (3,)
        for one, other in zip(
            *(torch.where(legal, outputs, -1e9).split(sizes, dim=1) for outputs in (teacher, got)), strict=True
        ):
            old, now = (torch.distributions.Categorical(logits=part) for part in (one, other))
            total = total + torch.distributions.kl_divergence(old, now)
        found.append(total)
    return torch.cat(found).mean().item()


def least_for_one_deviation(context):
    """For one Gaussian over rows of two: its variance is the mean, and KL half the log of its ratio to each."""
    rows = context.batch.alive[[0, 2]].sum(axis=(1, 2))
    variances = np.exp(2 * np.stack([context.tensors[f"policy/g{g:02d}/log_std"] for g in (0, 2)]).astype(float))
    share = (rows / rows.sum())[:, None]
    return float((share * np.log((share * variances).sum(axis=0) / variances) / 2).sum())


@ALL
def test_lessons_bring_merged_policy_closer_to_members(kind, remembers):
    context, code = scene(kind, remembers)
    base = {key.replace("g02", "g00"): array for key, array in context.tensors.items() if "policy/g02" in key}
    result = code.merge(context, MERGED, 0, 2, 400)
    before, after = divergence(context, base), divergence(context, result.tensors)
    assert result.metrics["distil_kl_before"] == pytest.approx(before, rel=1e-3)
    assert result.metrics["distil_kl_after"] == pytest.approx(after, rel=1e-2, abs=1e-5)
    least = least_for_one_deviation(context) if kind == "numbers" else 0.0
    assert before - least > 0.05
    assert after - least < 0.2 * (before - least)
    assert {key for key in context.tensors if key.startswith(("policy/g00", "critic/g00"))} <= set(result.tensors)


@ALL
def test_merge_without_lessons_keeps_critic_of_base(kind, remembers):
    context, code = scene(kind, remembers)
    result = code.merge(context, MERGED, 0, 2, 0)
    predicted = []
    for tensors, group in ((context.tensors, 2), (result.tensors, 0)):
        normaliser = Normaliser(*tensors[f"normaliser/g{group:02d}"].tolist())
        weights = recurrent.weights_of(tensors, f"critic/g{group:02d}")
        inputs = with_identity(context, 0, context.batch.observations[0][0])
        predicted.append(normaliser.denormalise(unroll(weights, inputs, starts(context))[0].astype(np.float64)))
    np.testing.assert_allclose(*predicted, rtol=0, atol=1e-5)
    assert np.ptp(predicted[0]) > 0.1
    assert not any(key.startswith("policy/") for key in result.tensors)


def test_lesson_of_numbers_equals_hand_computation():
    # Teacher N(0, 1), student N(1, 2): KL = ln 2 + (1 + 1) / (2 * 4) - 1/2. Gradients (1 - 0) / 4 and 1 - 2/4.
    distil_target = distil.distil_target(Gaussian(Bounds((-1.0,), (1.0,))), np.zeros((1, 1)), np.zeros((1, 1)), None)
    outputs, own = np.ones((1, 1)), np.log([2.0])
    assert distil_target.divergence(outputs, own) == pytest.approx(np.log(2) + 0.25 - 0.5, rel=1e-12)
    teacher = distil_target.loss(outputs, own, np.array([0]))
    np.testing.assert_allclose(teacher.grad_output, [[0.25]], rtol=1e-12)
    np.testing.assert_allclose(teacher.grad_log_std, [0.5], rtol=1e-12)


@pytest.mark.parametrize("kind", ["numbers", "several choices"])
def test_lesson_gradient_equals_automatic_differentiation(kind):
    rng, rows = np.random.default_rng(2), np.array([3, 0, 4])
    width = 2 if kind == "numbers" else 5
    outputs, teacher, own = rng.standard_normal((3, width)), rng.standard_normal((5, width)), rng.standard_normal(2)
    z, free = torch.tensor(outputs, requires_grad=True), torch.tensor(own, requires_grad=True)
    if kind == "numbers":
        spread = rng.standard_normal((5, 2))
        distil_target = distil.distil_target(Gaussian(Bounds((-1.0, -1.0), (1.0, 1.0))), teacher, spread, None)
        old = torch.distributions.Normal(torch.tensor(teacher[rows]), torch.tensor(spread[rows]).exp())
        wanted = torch.distributions.kl_divergence(old, torch.distributions.Normal(z, free.exp())).sum(dim=1).mean()
    else:
        distil_target, wanted = distil.distil_target(Branches((3, 2)), teacher, None, None), 0
        for one, other in zip(torch.tensor(teacher[rows]).split((3, 2), 1), z.split((3, 2), 1), strict=True):
            pair = (torch.distributions.Categorical(logits=part) for part in (one, other))
            wanted = wanted + torch.distributions.kl_divergence(*pair).mean()
    wanted.backward()
    found = distil_target.loss(outputs, own, rows)
    np.testing.assert_allclose(found.grad_output, z.grad.numpy(), rtol=0, atol=1e-13)
    if kind == "numbers":
        np.testing.assert_allclose(found.grad_log_std, free.grad.numpy(), rtol=1e-12)
