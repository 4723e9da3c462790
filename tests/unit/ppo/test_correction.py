"""Learning from data of earlier rounds: V-trace and decoupled PPO equal one plain computation by automatic
differentiation. With unchanged policies they equal plain PPO."""

import dataclasses
import itertools

import msgspec
import numpy as np
import pytest
import synthetic
import torch
from plain_ppo import Group
from synthetic import learned

from marless.functions import codec
from marless.functions.actor.rollout import collect
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.ppo import policy_summaries
from marless.functions.algorithms.ppo.correction import (
    behaviour_log_probability,
    is_corrected,
    proximal_log_probability,
    row_weights,
    staleness,
)
from marless.functions.algorithms.ppo.policy_summaries import curvature
from marless.functions.algorithms.ppo.ppo import policy_loss
from marless.functions.algorithms.ppo.specs import CORRECTIONS
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data import batch
from marless.functions.errors import BadRequest
from marless.functions.learner import stages
from marless.functions.policies import Policy
from marless.functions.randomness import generator
from marless.testing.algorithms.random_tasks import TASKS, RandomTask, teams

CASES = {
    "one choice with memory": ("ippo", "one choice", True, {"recurrent": True, "normalise_observations": True}),
    "several choices": ("mappo", "several choices", True, {"reward": "team"}),
    "numbers with memory": ("mappo", "numbers", False, {"recurrent": True, "reward": "team"}),
    "numbers": ("ippo", "numbers", False, {"time_limit": "terminal"}),
    "one group after the other": ("happo", "one choice", True, {}),
}
ALL = pytest.mark.parametrize("case", CASES)
EVERY = pytest.mark.parametrize("correction", CORRECTIONS)


def as_old(spec, rollout):
    """The rollout with log-probabilities of policies that differ so much that weights reach both caps."""
    rng = np.random.default_rng(4)
    names = [name for name in rollout if name.startswith("log_probability/")]
    return rollout | {name: rollout[name] + 1.2 * rng.standard_normal(rollout[name].shape) for name in names}


def scene(case, correction, age=1, changed=as_old, **fields):
    name, kind, masked, changes = CASES[case]
    made = synthetic.spec(kind, masked, sides=() if name == "happo" else (0, 0, 1))
    settings = {**synthetic.TIGHT, **changes, "correction": correction}
    context, algorithm = synthetic.context(name, made, settings, changed=changed, **fields)
    return dataclasses.replace(context, age=age), algorithm.reading(context.config.stale_reads if age else ())


def equal(found, expected):
    return codec.tensors_sha256(found.tensors) == codec.tensors_sha256(expected.tensors)


@pytest.mark.slow
@pytest.mark.one_in(4)
@EVERY
@ALL
def test_updates_are_those_of_one_plain_computation(case, correction):
    context, algorithm = scene(case, correction)
    groups = [Group(context, algorithm, group) for group in (0, 1)]
    for number in (0, 1):  # the second round starts from moments and a normaliser that are not empty
        context = dataclasses.replace(context, round=number)
        made = learned(context, algorithm).tensors
        in_turn = algorithm.stage("policy").in_turn
        order = generator(context.seed, number, "turns", "policy", 0).permutation(2) if in_turn else (0, 1)
        for place, index in enumerate(order):
            groups[index].factor = groups[order[0]].changed if in_turn and place else torch.ones_like(groups[0].factor)
            groups[index].round(number)
        for group in groups:
            group.compare(made)
        state = {key: array for key, array in made.items() if key.split("/")[0] in algorithm.parts}
        context = dataclasses.replace(context, tensors={**context.tensors, **state})


@EVERY
@ALL
def test_same_policy_data_is_learned_as_new(case, correction):
    """If every ratio is exactly 1, V-trace is GAE, all weights are 1, and the bytes equal plain PPO."""
    context, algorithm = scene(case, correction)
    pair, other = (proximal_log_probability(context, group) for group in (0, 1))  # of both classes
    same = dataclasses.replace(context.batch, log_probability=[pair, other])
    new = learned(dataclasses.replace(context, batch=same, age=0, memo={}), algorithm)
    old = learned(dataclasses.replace(context, batch=same, memo={}), algorithm)
    assert equal(old, new)
    assert new.metrics.items() <= old.metrics.items()
    expected = {"stale_ratio": 1.0, "effective_sample_size": 1.0, "stale_clip_fraction": 0.0}
    more = {name.split("/")[1]: old.metrics[name] for name in old.metrics.keys() - new.metrics.keys()}
    assert {name.partition("_a0")[0] for name in more} == expected.keys() - (
        {"stale_clip_fraction"} if correction == "none" else set()
    )
    assert all(value == expected[name.partition("_a0")[0]] for name, value in more.items())


@EVERY
@ALL
def test_correction_changes_no_byte_of_new_data(case, correction):
    assert equal(learned(*scene(case, correction, age=0)), learned(*scene(case, "none", age=0)))
    assert correction == "none" or not equal(learned(*scene(case, correction)), learned(*scene(case, "none")))


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_identical_weights_give_recorded_log_probabilities(task, recurrent):
    spec, algorithm = TASKS[task], algorithms.algorithm("ippo")
    config = algorithms.configuration(algorithm, {"hidden": [8, 8], "recurrent": recurrent})
    team, state = teams(spec)[-1], {}
    for group in team.learning:
        state |= algorithms.implementation(algorithm).initialise(spec, team, config, 1, group)
    # Initial policies are nearly uniform for every observation. A larger last layer makes them differ.
    last = "w1" if recurrent else "w2"
    state |= {name: 50 * array for name, array in state.items() if name.startswith("policy/") and name.endswith(last)}
    rollouts = collect(RandomTask(spec, 16), Policy(spec, team, state), 12, 1, 0, 0).tensors
    context = Context(spec, team, config, 1, 3, batch.join(spec, rollouts, (0,)), state, age=3)
    for group in team.learning:
        agents = [agent for agent, of in enumerate(team.groups) if of == group]
        recorded = np.stack([behaviour_log_probability(context, agent) for agent in agents])
        alive = context.batch.alive[agents]
        assert recorded[alive].std() > 0.05
        np.testing.assert_allclose(proximal_log_probability(context, group)[alive], recorded[alive], atol=2e-5)
        metrics = staleness(context, group)
        assert metrics["stale_ratio"] == pytest.approx(1, abs=1e-5)
        assert metrics["effective_sample_size"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("correction", ["vtrace", "decoupled"])
@pytest.mark.parametrize("case", ["several choices", "numbers"])
def test_row_loss_is_weighted_clipped_surrogate(case, correction):
    """The gradient at the outputs, against automatic differentiation of w min(r A, clip(r) A) at other weights."""
    context, algorithm = scene(case, correction)
    code = algorithms.implementation(algorithm)
    made = stages.run(algorithm, code, context, Share(["postprocess"], [0, 1])).tensors
    context = dataclasses.replace(context, tensors=context.tensors | made)
    loss, plain = policy_loss(context, 0), Group(context, algorithm, 0)
    plain.estimate()
    places = [(agent, t, e) for agent in (0, 2) for t, e in np.argwhere(context.batch.alive[agent]).tolist()]
    outputs = torch.tensor(np.random.default_rng(2).standard_normal((len(places), 5 if case != "numbers" else 2)))
    outputs.requires_grad_()
    losses = [plain.policy_loss(row, *place) for row, place in zip(outputs, places, strict=True)]
    torch.stack(losses).mean().backward()
    log_std = context.tensors.get("policy/g00/log_std")
    found = loss(outputs.detach().numpy(), log_std, np.arange(len(places)))
    np.testing.assert_allclose(found.grad_output, outputs.grad.numpy(), rtol=0, atol=1e-10)
    cap = CORRECTIONS[correction].cap
    weights = row_weights(context, 0)[context.batch.alive[[0, 2]]]
    assert 0.05 < (weights == cap).mean() < 0.9


@EVERY
@pytest.mark.parametrize("case", ["one choice with memory", "numbers", "one group after the other"])
def test_both_engines_correct_alike(case, correction):
    context, algorithm = scene(case, correction)
    plain = learned(context, algorithm)
    other = dataclasses.replace(context, memo={}, config=msgspec.structs.replace(context.config, engine="torch"))
    for key, array in learned(other, algorithm).tensors.items():
        np.testing.assert_allclose(array, plain.tensors[key], rtol=1e-10, atol=1e-10, err_msg=key)


@EVERY
@ALL
def test_data_of_dead_agents_change_no_corrected_byte(case, correction):
    context, algorithm = scene(case, correction)
    other, _ = scene(case, correction, changed=lambda spec, rollout: synthetic.meddled(spec, as_old(spec, rollout)))
    assert equal(learned(other, algorithm), learned(context, algorithm))


@EVERY
@ALL
def test_placement_changes_no_byte_and_reads_follow_specification(case, correction):
    context, algorithm = scene(case, correction, precision=np.float32)
    code, made = algorithms.implementation(algorithm), {}
    for stage in algorithm.stages:
        groups = [[0, 1]] if stage.in_turn else [[0], [1]]
        for share in groups:
            reads = {(part, f"g{group:02d}") for part, group in itertools.product(stage.reads, share)}
            visible = {key: array for key, array in context.tensors.items() if tuple(key.split("/")[:2]) in reads}
            new = {key: array for key, array in made.items() if key.split("/")[0] not in algorithm.parts}
            alone = dataclasses.replace(context, tensors=visible | new, memo={})
            made |= stages.run(algorithm, code, alone, Share([stage.name], share)).tensors
    packed = learned(dataclasses.replace(context, memo={}), algorithm).tensors
    assert codec.tensors_sha256(made) == codec.tensors_sha256(packed)
    assert packed["policy/g00/w0"].dtype == np.float32


def test_only_v_trace_reads_policies_before_training():
    by_correction = {
        name: algorithms.configuration(algorithms.algorithm("mappo"), {"correction": name}).stale_reads
        for name in CORRECTIONS
    }
    assert by_correction == {"vtrace": (("postprocess", "policy"),), "decoupled": (), "none": ()}
    mappo = algorithms.algorithm("mappo")
    assert mappo.reading(by_correction["vtrace"]).stage("postprocess").reads == ("critic", "normaliser", "policy")
    assert mappo.reading(()) is mappo


def test_the_metrics_say_how_much_the_data_differs():
    """Two living steps with the ratios 1/2 and 3/2: mean 1, mean of squares 5/4, one of two above V-trace's cap."""
    context, _ = scene("several choices", "vtrace")
    alive, proximal = context.batch.alive.copy(), proximal_log_probability(context, 0)
    alive[[0, 2]] = False
    alive[0, 3, 0] = alive[2, 5, 1] = True
    recorded = [array.copy() for array in context.batch.log_probability]
    recorded[0][0, 3, 0] = proximal[0, 3, 0] - np.log(0.5)
    recorded[0][1, 5, 1] = proximal[1, 5, 1] - np.log(1.5)
    changed = dataclasses.replace(context.batch, alive=alive, log_probability=recorded)
    metrics = staleness(dataclasses.replace(context, batch=changed, memo={}), 0)
    assert metrics == pytest.approx(
        {
            "stale_ratio": 1.0, "stale_ratio_a00": 0.5, "stale_ratio_a02": 1.5,
            "stale_clip_fraction": 0.5, "stale_clip_fraction_a00": 0.0, "stale_clip_fraction_a02": 1.0,
            "effective_sample_size": 0.8, "effective_sample_size_a00": 1.0, "effective_sample_size_a02": 1.0,
        }
    )  # fmt: skip


def test_data_without_log_probabilities_is_refused():
    context, algorithm = scene("numbers", "vtrace")
    context = dataclasses.replace(context, batch=dataclasses.replace(context.batch, log_probability=None))
    with pytest.raises(BadRequest, match="the trajectories hold no log-probabilities"):
        learned(context, algorithm)


@EVERY
def test_curvature_is_of_corrected_training_loss(correction, monkeypatch):
    """The closed form is for ratios of 1, which old data has only where it is corrected."""
    monkeypatch.setattr(policy_summaries, "LEAST", 10_000)  # all rows
    monkeypatch.setattr(policy_summaries, "PRODUCTS", 60)
    monkeypatch.setattr(policy_summaries, "RESIDUAL", 1e-7)
    settings = {"hidden": [3], "ent_coef": 0.02, "correction": correction}
    context, algorithm = synthetic.context("ippo", synthetic.spec("one choice", True), settings, changed=as_old)
    context = dataclasses.replace(context, age=1)
    code = algorithms.implementation(algorithm)
    made = stages.run(algorithm, code, context, Share(["postprocess"], [0, 1])).tensors
    context = dataclasses.replace(context, tensors=context.tensors | made)
    quick = curvature(context, {}, 0).metrics
    assert is_corrected(context) == (correction != "none")
    monkeypatch.setattr(policy_summaries, "_hessian", policy_summaries._differences)
    assert quick == pytest.approx(curvature(context, {}, 0).metrics, rel=1e-4)
