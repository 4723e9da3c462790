"""Reports on recurrent policies and every kind of action, against the same policies in torch."""

import dataclasses

import numpy as np
import pytest
import synthetic
import torch
from plain_ppo import Group, Network

from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.group_inputs import starts
from marless.functions.algorithms.ppo import policy_summaries
from marless.functions.algorithms.ppo.gradient_noise import noise_estimate
from marless.functions.algorithms.ppo.policy_summaries import (
    behaviour,
    compress,
    curvature,
    density,
    draw_rows,
    gaussian,
    noise,
)
from marless.functions.algorithms.specification import Share
from marless.functions.learner import stages

SETTINGS = {"data_chunk_length": 4, "epochs": 2, "num_minibatches": 2, "ent_coef": 0.02, "lr": 0.05}
CASES = [
    ("one choice", True),
    ("several choices", False),
    ("several choices", True),
    ("numbers", False),
    ("numbers", True),
]
ALL = pytest.mark.parametrize(("kind", "remembers"), CASES)


def scene(kind, remembers, hidden=4, layer_norm=False, **fields):
    """The input of the policy stage in double precision, and the learner's output."""
    made = synthetic.spec(kind, masked=kind != "numbers", sides=(0, 0, 1))
    context, algorithm = synthetic.context(
        "ippo", made, {**SETTINGS, "hidden": [hidden], "recurrent": remembers, "layer_norm": layer_norm}, **fields
    )
    names = [stage.name for stage in algorithm.stages]
    after = stages.run(algorithm, algorithms.implementation(algorithm), context, Share(names, [0, 1])).tensors
    passing = {name: array for name, array in after.items() if name not in context.tensors}
    return dataclasses.replace(context, tensors={**context.tensors, **passing}), after, algorithm


def outputs_and_masks(context, tensors, agent, purpose, count):
    """Outputs of `agent`'s new policy for the sampled steps of its class, episode by episode, and the masks."""
    batch, index = context.batch, context.batch.place(agent)[0]
    network = Network(tensors, "policy", f"g{context.team.groups[agent]:02d}", context.config)
    outputs, legal = [], []
    for place, rows in enumerate(draw_rows(context, index, purpose, count)):
        for t, e in zip(*np.divmod(rows, batch.ended.shape[1]), strict=True):
            first = max(np.flatnonzero(starts(context)[: t + 1, e]))
            seen = torch.tensor(batch.observations[index][place, first : t + 1, e])
            seen = torch.cat([seen, torch.eye(3, dtype=torch.float64)[agent].expand(len(seen), 3)], dim=1)[:, None]
            begins = torch.zeros(len(seen), 1, dtype=torch.bool)
            with torch.no_grad():
                outputs.append(network.unrolled(seen, begins, network.empty(1))[0][-1, 0])
            legal.append(None if batch.masks is None else batch.masks[index][place, t, e])
    return torch.stack(outputs), legal


@ALL
def test_behaviour_is_of_new_policies_after_full_episodes(kind, remembers):
    context, after, _ = scene(kind, remembers)
    if kind == "numbers":
        assert behaviour(context, after, 0).tables == {}
        return
    tables = behaviour(context, after, 0).tables
    assert sorted(tables) == [0, 2]
    sizes = context.spec.classes[0].branches or (3,)
    for agent, table in tables.items():
        outputs, legal = outputs_and_masks(context, after, agent, "behaviour", 256)
        parts = torch.where(torch.tensor(np.array(legal)), outputs, -1e9).split(sizes, dim=1)
        wanted = torch.cat([torch.softmax(part, dim=1) for part in parts], dim=1) / len(sizes)
        np.testing.assert_allclose(table, wanted.numpy(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(table.sum(axis=1), 1)


@ALL
def test_of_numbers_means_and_deviations_are_reported(kind, remembers):
    context, after, _ = scene(kind, remembers)
    tables = gaussian(context, after, 0).tables
    if kind != "numbers":
        assert tables == {}
        return
    for agent in (0, 2):
        outputs, _ = outputs_and_masks(context, after, agent, "behaviour", 256)
        np.testing.assert_allclose(tables[agent][:, 0], outputs.numpy(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(tables[agent][:, 1], np.tile(np.exp(after["policy/g00/log_std"]), (256, 1)))
    assert gaussian(context, after, 1).tables == {}  # one choice


@ALL
def test_density_is_of_what_the_environment_got(kind, remembers):
    context, after, _ = scene(kind, remembers)
    rows, joint = draw_rows(context, 0, "density", 500), []
    for place, own in enumerate(rows):
        seen = context.batch.observations[0][place].reshape(-1, synthetic.SIZE)[own]
        acted = context.batch.actions[0][place]
        acted = acted.reshape(acted.shape[0] * acted.shape[1], -1)[own]
        hot = {"one choice": (3,), "several choices": (3, 2)}.get(kind)
        done = np.tanh(acted) if hot is None else np.hstack([np.eye(n)[acted[:, b]] for b, n in enumerate(hot)])
        joint.append(np.hstack([seen, done]))
    wanted = compress(np.concatenate(joint), 4)
    tables = density(context, after, 0).tables
    np.testing.assert_array_equal(np.concatenate([tables[0], tables[2]]), wanted)


class Dense:
    """The policy's loss of one group in torch, as a function of its flat parameters."""

    def __init__(self, context, algorithm, group):
        self.group = Group(context, algorithm, group)
        self.group.estimate()
        self.network = self.group.policy
        self.shapes = {name: array.shape for name, array in self.network.named.items()}
        self.flat = torch.cat([array.detach().reshape(-1) for array in self.network.named.values()])
        self.pieces = self.group.pieces(self.network, "policy")

    def loss(self, pieces):
        def of(flat):
            sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
            parts = zip(self.shapes.items(), flat.split(sizes), strict=True)
            self.network.named = {name: part.reshape(shape) for (name, shape), part in parts}
            return self.group.loss_of(pieces, self.network, self.group.policy_loss)

        return of

    def gradient(self, pieces):
        flat = self.flat.clone().requires_grad_()
        self.loss(pieces)(flat).backward()
        return flat.grad.numpy()


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "remembers", "layer_norm"),
    [
        ("one choice", False, True),
        ("one choice", True, False),
        ("several choices", False, False),
        ("numbers", True, False),
    ],
)
def test_curvature_is_of_policy_training_loss(kind, remembers, layer_norm, monkeypatch):
    monkeypatch.setattr(policy_summaries, "LEAST", 10_000)  # all rows
    monkeypatch.setattr(policy_summaries, "PRODUCTS", 60)
    monkeypatch.setattr(policy_summaries, "RESIDUAL", 1e-6)
    context, after, algorithm = scene(kind, remembers, 2, layer_norm, steps=6, num_envs=2)
    dense = Dense(context, algorithm, 0)
    spectrum = np.linalg.eigvalsh(torch.autograd.functional.hessian(dense.loss(dense.pieces), dense.flat).numpy())
    metrics = curvature(context, after, 0).metrics
    assert metrics["largest"] == pytest.approx(spectrum[-1], rel=1e-4)
    assert metrics["smallest"] == pytest.approx(spectrum[0], rel=1e-4)


def test_curvature_uses_chunks_picked_by_address(monkeypatch):
    context, after, _ = scene("one choice", True)
    seen = []

    class RecordingHessian(policy_summaries.DifferenceHessian):
        def __init__(self, network, flat, part, loss_of):
            seen.append(part.rows.tolist())
            super().__init__(network, flat, part, loss_of)

    monkeypatch.setattr(policy_summaries, "DifferenceHessian", RecordingHessian)
    one, again = (curvature(context, after, 0) for _ in range(2))
    other = curvature(dataclasses.replace(context, round=5), after, 0)
    assert one == again
    assert one != other
    rows = int(context.batch.alive[[0, 2]].sum())
    assert seen[0] == seen[1] != seen[2]
    assert policy_summaries.LEAST / 2 < len(seen[0]) < rows / 2


@pytest.mark.parametrize("beyond", [0, 1])
def test_curvature_takes_each_row_once_in_large_sample(beyond, monkeypatch):
    context, after, _ = scene("one choice", False)
    rows, taken = int(context.batch.alive[[0, 2]].sum()), []

    class RecordingHessian(policy_summaries.Hessian):
        def __init__(self, network, flat, inputs, loss_of):
            taken.append(inputs)
            super().__init__(network, flat, inputs, loss_of)

    monkeypatch.setattr(policy_summaries, "Hessian", RecordingHessian)
    monkeypatch.setattr(policy_summaries, "LEAST", rows + beyond)
    curvature(context, after, 0)
    assert len(taken[0]) == len(np.unique(taken[0], axis=0)) == rows


@ALL
def test_noise_is_that_of_the_rollouts_gradients(kind, remembers):
    context, after, algorithm = scene(kind, remembers)
    dense = Dense(context, algorithm, 0)
    # Two rollouts of two environments each. The first environment of each.
    rollouts = [[piece for piece in dense.pieces if piece[1] == copy] for copy in (0, 2)]
    wanted = noise_estimate(np.stack([dense.gradient(pieces) for pieces in rollouts]), 0.5)
    metrics = noise(context, after, 0).metrics
    assert metrics["trace"] == pytest.approx(wanted.trace, rel=1e-9)
    assert metrics["square"] == pytest.approx(wanted.square, rel=1e-9, abs=1e-9 * wanted.trace)


@pytest.mark.parametrize(("kind", "remembers"), [*CASES, ("one choice", False)])
def test_group_without_living_rows_has_no_figures(kind, remembers):
    context, after, _ = scene(kind, remembers)
    alive = context.batch.alive.copy()
    alive[[0, 2]] = False
    empty = {**context.tensors, "advantage/g00": np.zeros(0)}
    context = dataclasses.replace(context, batch=dataclasses.replace(context.batch, alive=alive), tensors=empty)
    for summary in (behaviour, gaussian, density, curvature, noise):
        result = summary(context, after, 0)
        assert result.metrics == {}
        assert bool(result.tables) == (summary in (density, gaussian if kind == "numbers" else behaviour))
        assert all(np.isfinite(table).all() for table in result.tables.values())
