"""Metrics that PPO learners report on their policies, against the policies themselves and torch."""

import dataclasses

import numpy as np
import pytest
import torch

from marless.functions.actor.rollout import collect
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.ppo import mappo, policy_summaries
from marless.functions.algorithms.ppo.gradient_noise import noise_estimate
from marless.functions.algorithms.ppo.policy_summaries import PPO_SUMMARIES, compress, draw_rows
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data import batch
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask, Observation
from marless.functions.keys import group_name
from marless.functions.learner import stages
from marless.functions.messages.learner import SummaryName
from marless.functions.messages.team import Team
from marless.functions.policies import Policy

OPTIONS = {"masked": True, "elimination": True, "horizon": 3}
SEPARATE = (EnvTask(name="toy/signal", agents=3, options={**OPTIONS, "mixed": True}), Team(groups=(0, 1, 2)))
SHARED = (EnvTask(name="toy/signal", agents=3, options=OPTIONS), Team(groups=(0, 0, 0), identity=True))
PAIR = (EnvTask(name="toy/signal", agents=3, options=OPTIONS), Team(groups=(0, 1, 0), identity=True))
TEAMS = pytest.mark.parametrize(("task", "team"), [SEPARATE, SHARED, PAIR], ids=["separate", "shared", "pair"])
ROLLOUTS, STEPS, NUM_ENVS = (4, 5, 6), 7, 12


def scene(task, team, rollouts=ROLLOUTS, num_envs=NUM_ENVS):
    """The input of the policy stage and the learner's output, for all groups."""
    spec, algorithm = registry.spec(task), algorithms.algorithm("mappo")
    config = algorithms.configuration(algorithm, {"hidden": [8, 8], "epochs": 2}).resolved(spec)
    state, sampled, groups = {}, {}, sorted(set(team.groups))
    for group in groups:
        state |= mappo.initialise(spec, team, config, 3, group)
    # Initial policies are nearly uniform for every observation. A larger last layer makes them differ.
    state |= {name: 200 * array for name, array in state.items() if name.startswith("policy/") and name.endswith("w2")}
    for rollout in rollouts:
        environment = registry.make(task, num_envs)
        sampled |= collect(environment, Policy(spec, team, state), STEPS, 3, 9, rollout).tensors
    context = Context(spec, team, config, 3, 9, batch.join(spec, sampled, rollouts), state)
    names = [stage.name for stage in algorithm.stages]
    made = stages.run(algorithm, mappo, context, Share(names, groups)).tensors
    passing = {name: array for name, array in made.items() if name not in state}
    return dataclasses.replace(context, tensors={**state, **passing}), made


def report(summary, before, after):
    """Metrics by name and group, and tables by agent, of all groups."""
    metrics, tables = {}, {}
    for group in sorted(set(before.team.groups)):
        result = PPO_SUMMARIES[summary](before, after, group)
        metrics |= {(name, group): value for name, value in result.metrics.items()}
        tables |= result.tables
    return metrics, tables


def picked(arrays, rows):
    """The sampled steps of ``[n, T, E, ...]``, agent by agent."""
    return np.concatenate([array.reshape(-1, *array.shape[2:])[own] for array, own in zip(arrays, rows, strict=True)])


def softmax(logits):
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_all_that_can_be_asked_for_is_reported():
    assert set(PPO_SUMMARIES) == set(SummaryName.__args__)
    assert set(algorithms.algorithm("ippo").summaries) == set(SummaryName.__args__)


@TEAMS
def test_behaviour_is_of_new_policies_on_drawn_observations(task, team):
    before, after = scene(task, team)
    _, tables = report("behaviour", before, after)
    assert sorted(tables) == [0, 1, 2]
    policy = Policy(before.spec, team, after)
    values, masks = [], []
    for index, kind in enumerate(before.spec.classes):
        rows = draw_rows(before, index, "behaviour", 256)
        for found, arrays in ((values, before.batch.observations), (masks, before.batch.masks)):
            found.append(np.repeat(picked(arrays[index], rows)[:, None], len(kind.agents), axis=1))
    logits = policy.logits(Observation(tuple(values), np.ones((256, 3), bool), tuple(masks)))
    for kind, by_agent, allowed in zip(before.spec.classes, logits, masks, strict=True):
        for agent, own in zip(kind.agents, by_agent, strict=True):
            np.testing.assert_allclose(tables[agent], softmax(own), rtol=0, atol=1e-6)
            assert not tables[agent][~allowed[:, 0]].any()
            assert not allowed.all()
            assert np.ptp(own[allowed[:, 0]]) > 1  # policies that depend on observations


def test_agents_with_equal_networks_report_equally():
    task = PAIR[0]
    teams = [Team(groups=groups) for groups in ((0, 1, 2), (0, 0, 2), (0, 0, 0))]
    before, after = scene(task, teams[0])
    equal = {**after, **{name.replace("g00", "g01"): array for name, array in after.items() if "policy/g00" in name}}
    for summary in ("behaviour", "density"):
        found = [report(summary, dataclasses.replace(before, team=team), equal)[1] for team in teams]
        for tables in found:
            np.testing.assert_array_equal(tables[1], found[0][1])
        if summary == "behaviour":
            np.testing.assert_array_equal(found[0][0], found[0][1])
            assert (found[0][0] != found[0][2]).any()
        else:
            assert (found[0][0] != found[0][1]).any()  # every agent's own steps


def test_observations_come_equally_from_living_agents():
    before, _ = scene(*SHARED)
    rows = draw_rows(before, 0, "behaviour", 256)
    assert [len(own) for own in rows] == [85, 85, 86]
    for agent, own in enumerate(rows):
        assert before.batch.alive[agent].ravel()[own].all()
        assert not before.batch.alive[agent].all()
        assert len(set(own.tolist())) == len(own)


def test_every_round_seed_and_purpose_draws_anew():
    before, _ = scene(*SHARED)
    others = [dataclasses.replace(before, round=10), dataclasses.replace(before, seed=4)]
    first = [own.tolist() for own in draw_rows(before, 0, "behaviour", 30)]
    assert [own.tolist() for own in draw_rows(before, 0, "behaviour", 30)] == first
    for other in [draw_rows(other, 0, "behaviour", 30) for other in others] + [draw_rows(before, 0, "density", 30)]:
        assert [own.tolist() for own in other] != first


def test_agent_with_few_living_steps_gives_each_first():
    before, _ = scene(*SHARED)
    alive = before.batch.alive.copy()
    alive[0], alive[1] = False, False
    alive[0, 2, :3] = True
    before = dataclasses.replace(before, batch=dataclasses.replace(before.batch, alive=alive))
    rows = draw_rows(before, 0, "behaviour", 24)
    first = 2 * before.batch.ended.shape[1]
    assert {row: rows[0].tolist().count(row) for row in rows[0].tolist()} in [
        {first + e: 3 if e == twice[0] or e == twice[1] else 2 for e in range(3)} for twice in ((0, 1), (0, 2), (1, 2))
    ]
    assert len(set(rows[1].tolist())) == 8


@pytest.mark.parametrize("index", [0, 1])
def test_density_uses_principal_components_of_class(index):
    before, after = scene(*SEPARATE)
    kind = before.spec.classes[index]
    rows = draw_rows(before, index, "density", 250 * len(kind.agents))
    actions = picked(before.batch.actions[index], rows)
    joint = np.concatenate([picked(before.batch.observations[index], rows), np.eye(kind.actions)[actions]], axis=1)
    centred = joint - joint.mean(axis=0)
    scaled = centred[:, centred.any(axis=0)] / centred.std(axis=0)[centred.any(axis=0)]
    _, variances, axes = np.linalg.svd(scaled, full_matrices=False)
    assert variances[3] - variances[4] > 1e-3 * variances[0]
    _, tables = report("density", before, after)
    found = np.concatenate([tables[agent] for agent in kind.agents])
    assert found.shape == (250 * len(kind.agents), 4)
    for column, axis in zip(found.T, axes, strict=False):
        wanted = scaled @ axis
        np.testing.assert_allclose(np.abs(column @ wanted), column @ column, rtol=1e-9)
        np.testing.assert_allclose(column @ column, wanted @ wanted, rtol=1e-9)


def test_components_are_independent_of_sign_and_units():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((60, 3)) @ np.diag([1.0, 2.0, 3.0]) @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    found = compress(vectors, 2)
    np.testing.assert_allclose(compress(vectors * [1e3, 1e-3, 1] + 7, 2), found, atol=1e-9)
    flipped = compress(vectors * [-1, 1, 1], 2)
    for column, other in zip(found.T, flipped.T, strict=True):
        assert min(np.abs(column - other).max(), np.abs(column + other).max()) < 1e-9


def test_the_largest_weight_of_an_axis_is_positive():
    falling = np.array([[1.0, -10.0, 0.0], [2.0, -20.1, 0.0], [3.0, -29.9, 0.0]])
    # Two features of opposite trend: the first axis is (1, -1) or (-1, 1) by √½, whichever entry is larger by rounding.
    np.testing.assert_allclose(compress(falling[:, :1], 1)[:, 0], [-np.sqrt(1.5), 0, np.sqrt(1.5)])
    np.testing.assert_allclose(np.abs(compress(falling, 1)[:, 0]), [np.sqrt(3), 0, np.sqrt(3)], atol=0.02)


@pytest.mark.parametrize("count", [50, 750, 2501])
def test_a_feature_that_never_changes_counts_nothing(count):
    vectors = np.random.default_rng(1).standard_normal((count, 2)).astype(np.float32)
    constant = np.full((count, 1), 0.1, np.float32)
    with_it = compress(np.concatenate([constant, vectors, 0 * constant], axis=1), 4)
    np.testing.assert_allclose(with_it[:, :2], compress(vectors, 4), atol=1e-9)
    np.testing.assert_allclose(with_it[:, 2:], 0, atol=1e-9)
    np.testing.assert_array_equal(compress(0 * vectors, 4), np.zeros((count, 2)))


class Dense:
    """The policy's loss of one group on given rows in torch, in double precision."""

    def __init__(self, before, group):
        self.before, self.group, self.agents = before, group, members(before.team, group)
        prefix = f"policy/{group_name(group)}/"
        names = [f"{prefix}{kind}{layer}" for layer in range(3) for kind in "wb"]
        self.shapes = [before.tensors[name].shape for name in names]
        self.flat = torch.tensor(np.concatenate([before.tensors[name].ravel() for name in names]).astype(np.float64))
        columns = [self._columns(agent) for agent in self.agents]
        alive = before.batch.alive[self.agents].ravel()
        self.rows = [np.concatenate(parts)[alive] for parts in zip(*columns, strict=True)]
        self.advantage = before.tensors[f"advantage/{group_name(group)}"].astype(np.float64)

    def _columns(self, agent):
        """Inputs, legal actions, actions taken and environment indices, ``[T * E, ...]``."""
        joined = self.before.batch
        seen = joined.of(joined.observations, agent)
        if self.before.team.identity:
            seen = np.concatenate([seen, np.broadcast_to(np.eye(3)[agent], (*seen.shape[:2], 3))], axis=-1)
        num_envs = np.broadcast_to(np.arange(seen.shape[1]), seen.shape[:2])
        parts = (seen, joined.of(joined.masks, agent), joined.of(joined.actions, agent), num_envs)
        return [part.reshape(-1, *part.shape[2:]) for part in parts]

    def loss(self, rows):
        inputs, legal, actions, _ = (torch.tensor(part[rows]) for part in self.rows)
        advantage = torch.tensor(self.advantage[rows])

        def of(flat):
            w0, b0, w1, b1, w2, b2 = (
                part.reshape(shape)
                for part, shape in zip(flat.split([int(np.prod(s)) for s in self.shapes]), self.shapes, strict=True)
            )
            hidden = torch.tanh(torch.tanh(inputs.double() @ w0 + b0) @ w1 + b1)
            log_p = torch.log_softmax(torch.where(legal, hidden @ w2 + b2, -1e9), dim=1)
            taken = log_p[torch.arange(len(actions)), actions.long()]
            ratio = torch.exp(taken - taken.detach())
            entropy = -(torch.exp(log_p) * log_p).sum(dim=1)
            return -(ratio * advantage).mean() - self.before.config.ent_coef * entropy.mean()

        return of

    def gradient(self, rows):
        flat = self.flat.clone().requires_grad_()
        self.loss(rows)(flat).backward()
        return flat.grad.numpy()


@TEAMS
def test_curvature_is_of_group_loss_at_incoming_weights(task, team, monkeypatch):
    monkeypatch.setattr(policy_summaries, "LEAST", 10_000)  # all rows
    monkeypatch.setattr(policy_summaries, "PRODUCTS", 40)
    monkeypatch.setattr(policy_summaries, "RESIDUAL", 1e-3)
    before, after = scene(task, team)
    metrics, tables = report("curvature", before, after)
    assert tables == {}
    for group in set(team.groups):
        dense = Dense(before, group)
        hessian = torch.autograd.functional.hessian(dense.loss(np.arange(len(dense.advantage))), dense.flat)
        spectrum = np.linalg.eigvalsh(hessian.numpy())
        assert metrics["smallest", group] == pytest.approx(spectrum[0], rel=1e-3)
        assert metrics["largest", group] == pytest.approx(spectrum[-1], rel=1e-3)


def test_curvature_uses_few_rows_picked_by_address():
    before, after = scene(*SHARED, num_envs=100)  # some two thousand rows a rollout and three rollouts
    seen = []

    class RecordingHessian(policy_summaries.Hessian):
        def __init__(self, network, flat, inputs, loss):
            seen.append(inputs)
            super().__init__(network, flat, inputs, loss)

    count = len(before.tensors["advantage/g00"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_summaries, "Hessian", RecordingHessian)
        first, again = (report("curvature", before, after) for _ in range(2))
        other = report("curvature", dataclasses.replace(before, round=10), after)
    assert first == again
    assert other != first
    np.testing.assert_array_equal(seen[0], seen[1])
    assert (seen[0] != seen[2]).any()
    assert [len(inputs) for inputs in seen] == 3 * [count // 100]
    assert count // 100 > policy_summaries.LEAST


@TEAMS
def test_noise_is_that_of_the_rollouts_gradients(task, team):
    before, after = scene(task, team)
    metrics, tables = report("noise", before, after)
    assert tables == {}
    for group in set(team.groups):
        dense = Dense(before, group)
        num_envs = dense.rows[3]
        # The first six of the twelve environments of each of three rollouts.
        rollouts = [np.flatnonzero((num_envs >= 12 * rollout) & (num_envs < 12 * rollout + 6)) for rollout in range(3)]
        wanted = noise_estimate(np.stack([dense.gradient(rows) for rows in rollouts]), 0.5)
        assert metrics["trace", group] == pytest.approx(wanted.trace, rel=1e-4)
        assert metrics["square", group] == pytest.approx(wanted.square, rel=1e-3, abs=1e-4 * wanted.trace)


def test_one_rollout_reports_nothing_of_noise():
    assert report("noise", *scene(*SHARED, rollouts=(4,))) == ({}, {})


def test_rollouts_without_living_group_have_no_noise():
    before, after = scene(*SEPARATE)
    alive = before.batch.alive.copy()
    alive[0, :, :12] = False
    num_envs = np.nonzero(before.batch.alive[0])[1]
    advantage = before.tensors["advantage/g00"][num_envs >= 12]
    two = dataclasses.replace(
        before,
        batch=dataclasses.replace(before.batch, alive=alive),
        tensors={**before.tensors, "advantage/g00": advantage},
    )
    dense = Dense(two, 0)
    num_envs = dense.rows[3]
    rollouts = [np.flatnonzero((num_envs >= 12 * rollout) & (num_envs < 12 * rollout + 6)) for rollout in (1, 2)]
    wanted = noise_estimate(np.stack([dense.gradient(rows) for rows in rollouts]), 0.5)
    assert PPO_SUMMARIES["noise"](two, after, 0).metrics["trace"] == pytest.approx(wanted.trace, rel=1e-4)


def test_nothing_reported_changes_what_it_was_reported_of():
    before, after = scene(*PAIR)
    held = {name: array.copy() for name, array in {**before.tensors, **after}.items()}
    arrays = [before.batch.observations[0], before.batch.alive, before.batch.actions[0]]
    num_envs = [array.copy() for array in arrays]
    for summary in PPO_SUMMARIES:
        report(summary, before, after)
    for name, array in {**before.tensors, **after}.items():
        np.testing.assert_array_equal(array, held[name])
    for array, copy in zip(arrays, num_envs, strict=True):
        np.testing.assert_array_equal(array, copy)
