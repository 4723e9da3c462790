"""MADDPG, IDDPG, MASAC and ISAC against a plain computation in torch, in float64, under every placement."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from plain_ddpg import Agents
from plain_sac import SoftAgents
from synthetic import SIZE, meddled, rollout_of

from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data.replay_buffer import ReplayBuffer, RolloutKey
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.learner import stages
from marless.functions.learner.update import as_stored
from marless.functions.messages.team import Team

ROUNDS, UPDATES, STEPS = 2, 2, 12
POOLED, APART = Team(groups=(0, 1, 0), identity=True), Team(groups=(0, 1, 2))
# Norm caps that clip every network, on both sides. Adam's epsilon is large enough for gradients near 0 to stay
# comparable.
TIGHT, MIDDLE = 0.01, 0.4
# The norms of the gradients of soft critics and policies are on both sides of this one.
SOFT_MIDDLE = 1.5
SETTINGS = {
    "updates_per_round": UPDATES,
    "batch_size": 6,
    "hidden": [7, 5],
    "lr": 0.02,
    "critic_lr": 0.05,
    "tau": 0.3,
    "adam_eps": 1e-3,
    "max_grad_norm": TIGHT,
}
NUMBERS = {"noise_start": 0.1}
RECURRENT = {"recurrent": True, "sequence_length": 4}
TD3 = {"twin_critics": True, "target_noise": 0.5, "policy_delay": 2}
CASES = {
    "choices": ("one choice", POOLED, {"max_grad_norm": MIDDLE}),
    "choices apart": ("one choice", APART, {"huber_delta": 0.2, "target_update_interval": 2}),
    "numbers": ("numbers", POOLED, {**NUMBERS, "max_grad_norm": MIDDLE, "time_limit": "terminal"}),
    "segments of numbers": ("numbers", APART, {**NUMBERS, "sequence_length": 3, "reward": "own", "burn_in": 1}),
    "choices beside numbers": ("both", POOLED, {**NUMBERS, "reward": "own"}),
    "choices beside numbers, recurrent": ("both", APART, {**NUMBERS, **RECURRENT}),
    "choices, recurrent": ("one choice", POOLED, {**RECURRENT, "burn_in": 1, "temperature": 0.5}),
    "numbers, recurrent": ("numbers", POOLED, {**NUMBERS, **RECURRENT, "standardise_rewards": False}),
    "choices from the first update on": ("one choice", POOLED, {}),
    "numbers from the first update on": (
        "numbers",
        APART,
        {**NUMBERS, "sequence_length": 3, "reward": "own", "burn_in": 1},
    ),
    "choices with two critics": ("one choice", POOLED, {"twin_critics": True, "max_grad_norm": MIDDLE}),
    "numbers with two critics, recurrent": ("numbers", APART, {**NUMBERS, **RECURRENT, "twin_critics": True}),
    "TD3": ("numbers", POOLED, {**NUMBERS, **TD3}),
    "TD3, recurrent": ("both", APART, {**NUMBERS, **RECURRENT, **TD3}),
    "whole rollouts": ("one choice", APART, {"recurrent": True, "batch_size": 2, "target_update_interval": 3}),
}
# Settings that only deterministic policies have, and only soft ones.
ONLY_DETERMINISTIC = ("noise_start", "temperature", *TD3)
SOFT = {"temperature_lr": 0.03, "entropy_share": 0.4, "entropy_per_number": -0.7, "initial_temperature": 0.3}
# Cases that start with a reward scale and level. In the others the first update sets them.
LATER = [case for case in CASES if "first update" not in case]
EACH_CASE = pytest.mark.parametrize("case", CASES)
SOFT_NAMES = ("masac", "isac")
EACH = pytest.mark.parametrize("name", ["maddpg", "iddpg", *SOFT_NAMES])


def spec_of(kind, state_size=5):
    """Three agents on two sides: two of one class, one of another, all of this kind. `both`: only the two choose."""
    numbers = {"actions": 2, "low": (-1.0, -2.0), "high": (1.0, 3.0)}
    own = numbers if kind == "numbers" else {"actions": 3}
    other = {"actions": 4} if kind == "one choice" else {"actions": 1, "low": (0.0,), "high": (1.0,)}
    return EnvSpec(
        agents=("a", "b", "c"),
        classes=(AgentClass("these", (0, 2), SIZE, **own), AgentClass("other", (1,), SIZE, **other)),
        horizon=50, state_size=state_size, masked=kind != "numbers", sides=(0, 1, 0),
    )  # fmt: skip


@functools.cache
def rollouts(spec):
    rng, found = np.random.default_rng(5), {}
    for number in range(2):
        tensors = found[RolloutKey(number, 0, str(number))] = rollout_of(spec, rng, STEPS, num_envs=3)
        for c, kind in enumerate(spec.classes):
            if kind.continuous:
                tensors[f"action/{c}"] = np.tanh(tensors[f"action/{c}"])
    return found


def scene(name, case, changed=None, state_size=5):
    """The algorithm, and the context of its first round. `changed` makes other rollouts of the spec and each
    rollout."""
    kind, team, own = CASES[case]
    spec, algorithm, state = spec_of(kind, state_size), algorithms.algorithm(name), {}
    if name in SOFT_NAMES:
        own = {key: value for key, value in own.items() if key not in ONLY_DETERMINISTIC} | SOFT
        if "max_grad_norm" in own:
            own["max_grad_norm"] = SOFT_MIDDLE
    config = algorithms.configuration(algorithm, {**SETTINGS, **own}).resolved(spec)
    algorithm = algorithm.without(config.idle_parts)
    for group in sorted(set(team.groups)):
        state |= algorithms.implementation(algorithm).initialise(spec, team, config, 3, group)
    state = {key: array.astype(np.float64) if array.dtype == np.float32 else array for key, array in state.items()}
    # Networks with large last layers, so that masks, ties and saturation occur together.
    rng = np.random.default_rng(1)
    for key in state:
        if key.split("/")[0] in ("policy", "target", "critic", "critic_target", "twin", "twin_target"):
            state[key] = state[key] + 0.5 * rng.standard_normal(state[key].shape)
        elif key.startswith("normaliser/") and case in LATER:
            state[key] = np.array([0.002, 0.01, 0.004, 0.3])
    kept = buffer_of(spec, changed)
    return algorithm, Context(spec, team, config, 3, 0, played(kept), state, kept)


def buffer_of(spec, changed=None):
    made = rollouts(spec)
    made = {rollout: changed(spec, tensors) for rollout, tensors in made.items()} if changed else made
    kept = ReplayBuffer(spec)
    kept.load(list(made), lambda wanted: {rollout: made[rollout] for rollout in wanted})
    return kept


def played(kept):
    return kept.segments_from(np.arange(3), STEPS)


def readable(algorithm, work, tensors):
    parts = {part for stage in work.stages for part in algorithm.stage(stage).reads}
    wanted = tuple(f"{part}/g{group:02d}" for part in parts for group in work.groups)
    return {key: array for key, array in tensors.items() if "/".join(key.split("/")[:2]) in wanted}


@functools.cache
def learned(name, case, rule, changed=None, state_size=5):
    """The learner's state after some rounds of a placement, and the metrics of the last: each work reads only
    its task's parts."""
    algorithm, context = scene(name, case, changed, state_size)
    groups, code = sorted(set(context.team.groups)), algorithms.implementation(algorithm)
    state = dict(context.tensors)
    for round_ in range(ROUNDS):
        passing, metrics = {}, {}
        for wave in LEARNER_PLACEMENTS[rule](algorithm.stages, groups, UPDATES):
            given = []
            for work in wave:
                known = {**readable(algorithm, work, state), **passing.get(work.first, {})}
                kept = buffer_of(context.spec, changed)
                own = replace(context, round=round_, batch=played(kept), tensors=as_stored(known), replay_buffer=kept)
                share = Share(work.stages, work.groups, range(work.first, work.first + work.updates))
                outcome = stages.run(algorithm, code, own, share)
                given.append((work, outcome.tensors))
                metrics |= outcome.metrics
            for work, tensors in given:
                for key, array in tensors.items():
                    home = state if key in state else passing.setdefault(work.first, {}) if work.publish else {}
                    home[key] = array
    return state, metrics


def plainly(name, case):
    _, context = scene(name, case)
    kind, central = (SoftAgents if name in SOFT_NAMES else Agents), name in ("maddpg", "masac")
    agents = kind(context.spec, context.team, context.config, central, 3, context.tensors, context.batch)
    whole = context.replay_buffer.steps if context.config.recurrent else 1
    for round_ in range(ROUNDS):
        for update in range(UPDATES):
            rng = agents.address(round_, update)
            agents.update(
                context.replay_buffer.sample(rng, context.config.batch_size, context.config.sequence_length or whole),
                round_,
                update,
            )
    return agents


@pytest.mark.one_in(7)
@EACH
@EACH_CASE
def test_all_placements_give_the_same_bytes(name, case):
    packed, expected_metrics = learned(name, case, "packed")
    for rule in ("split", "fused"):
        found, metrics = learned(name, case, rule)
        assert found.keys() == packed.keys() and metrics == expected_metrics
        assert [key for key in packed if found[key].tobytes() != packed[key].tobytes()] == []


@pytest.mark.slow
@pytest.mark.one_in(7)
@EACH
@EACH_CASE
def test_several_rounds_are_those_of_a_plain_computation(name, case):
    (found, metrics), plain = learned(name, case, "packed"), plainly(name, case)
    wanted = plain.tensors()
    context = scene(name, case)[1]
    before = context.tensors
    assert found.keys() == before.keys()
    for key in sorted(found):
        if key.endswith("/steps"):
            delay = context.config.target_delay if key.startswith("policy") else 1
            assert found[key] == ROUNDS * UPDATES // delay
            continue
        scale = np.abs(wanted[key]).max()
        np.testing.assert_allclose(found[key], wanted[key], rtol=0, atol=1e-10 * scale, err_msg=key)
        assert np.abs(found[key] - before[key]).max() > 1e-4 * scale, f"{key} did not move"
    norms = {key: value for key, value in metrics.items() if "grad_norm" in key}
    assert norms == {key: pytest.approx(norm, rel=1e-9) for key, norm in plain.norms.items()}
    capped = [network.capped for networks in (plain.policy, *plain.critics.values()) for network in networks.values()]
    most = len(capped) * ROUNDS * UPDATES
    assert all(capped) if CASES[case][2].get("max_grad_norm") is None else 0 < sum(capped) < most


@pytest.mark.one_in(7)
@pytest.mark.parametrize("state_size", [5, 0])
@EACH
@EACH_CASE
def test_data_of_dead_agents_change_no_ddpg_byte(name, case, state_size):
    found, metrics = learned(name, case, "packed", meddled, state_size)
    expected, expected_metrics = learned(name, case, "packed", state_size=state_size)
    assert any(not rollout["alive"].all() for rollout in rollouts(spec_of(CASES[case][0])).values())
    assert [key for key in expected if found[key].tobytes() != expected[key].tobytes()] == []
    assert metrics == expected_metrics
