"""Recurrent policies and every kind of action: the stages equal one plain computation by automatic differentiation and
torch's Adam. Their placement changes no byte."""

import dataclasses

import numpy as np
import pytest
import synthetic
from plain_ppo import Group

from marless.functions import codec
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.learner import stages
from marless.functions.messages.exchange import TaskHeader

CASES = {
    "one choice with memory": ("ippo", "one choice", True, {"recurrent": True}),
    "several choices": ("mappo", "several choices", True, {}),
    "several choices with memory": ("mappo", "several choices", True, {"recurrent": True, "hidden": [6]}),
    "numbers": ("ippo", "numbers", False, {"reward": "team"}),
    "numbers with memory": ("mappo", "numbers", False, {"recurrent": True, "reward": "team"}),
    "the own observation behind the state": ("mappo", "one choice", True, {"critic_input": "state+observation"}),
    "the same with memory and the team's reward": (
        "mappo", "numbers", False, {"critic_input": "state+observation", "recurrent": True, "reward": "team"}
    ),
    "normalised inputs": ("ippo", "one choice", True, {"normalise_observations": True}),
    "normalised inputs with memory": (
        "mappo", "numbers", False,
        {"normalise_observations": True, "recurrent": True, "reward": "team", "critic_input": "state+observation"},
    ),
    "layer norms": ("ippo", "several choices", True, {"layer_norm": True}),
    "layer norms with memory": ("mappo", "numbers", False, {"layer_norm": True, "recurrent": True}),
    "an end at time limits": ("ippo", "numbers", False, {"recurrent": True, "time_limit": "terminal"}),
}  # fmt: skip
ALL = pytest.mark.parametrize("case", CASES)


def scene(case, **fields):
    name, kind, masked, changes = CASES[case]
    made = synthetic.spec(kind, masked, sides=(0, 0, 1))
    return synthetic.context(name, made, {**synthetic.TIGHT, **changes}, **fields)


@pytest.mark.slow
@pytest.mark.one_in(3)
@ALL
def test_updates_are_those_of_one_plain_computation(case):
    context, algorithm = scene(case)
    groups = [Group(context, algorithm, group) for group in (0, 1)]
    for number in (0, 1):  # the second round starts from moments and a normaliser that are not empty
        context = dataclasses.replace(context, round=number)
        made, metrics = synthetic.one_by_one(context, algorithm)
        for group in groups:
            group.round(number)
            group.compare(made)
            for part, norm in group.norms.items():
                assert metrics[f"{part}/{part}_grad_norm/g{group.group:02d}"] == pytest.approx(norm, rel=1e-9)
        context = dataclasses.replace(context, tensors={**context.tensors, **made})
    assert {key for group in groups for key in group.tensors()} == {
        key for key in made if key.split("/")[0] in algorithm.parts and "steps" not in key
    }
    for group in groups:  # the cases that could hide an error occur
        assert 0.1 < metrics[f"policy/clip_fraction/g{group.group:02d}"] < 1
        assert group.policy.capped + group.critic.capped > 0


def test_made_up_round_has_every_row_end():
    joined = scene("numbers with memory")[0].batch
    dead = ~joined.alive
    assert dead.any()
    assert (joined.terminated & ~joined.ended).any()
    assert (joined.terminated & joined.ended).any()
    assert joined.ended[joined.cut[:, 0], joined.cut[:, 1]].any()
    assert (~joined.ended[-1]).any()
    assert dead[:, 4:8].all(axis=1).any()  # a segment without a living row


@pytest.mark.parametrize("state_size", [5, 0])
@ALL
def test_data_of_dead_agents_change_no_byte(case, state_size):
    name, kind, masked, changes = CASES[case]
    made = synthetic.spec(kind, masked, sides=(0, 0, 1), state_size=state_size)
    results = []
    for changed in (lambda spec, rollout: rollout, synthetic.meddled):
        context, algorithm = synthetic.context(name, made, {**synthetic.TIGHT, **changes}, changed=changed)
        results.append(synthetic.one_by_one(context, algorithm))
    (found, metrics), (expected, report) = results
    assert codec.tensors_sha256(found) == codec.tensors_sha256(expected)
    assert metrics == report


@ALL
def test_placement_of_stages_and_groups_changes_no_byte(case):
    for precision in (np.float32, np.float64):
        context, algorithm = scene(case, precision=precision)
        code, everything = algorithms.implementation(algorithm), [stage.name for stage in algorithm.stages]
        packed = stages.run(algorithm, code, context, Share(everything, [0, 1]))
        split, metrics = synthetic.one_by_one(
            context, algorithm, lambda tensors: codec.decode(codec.encode(tensors, TaskHeader(task="t")), "k")
        )
        fused = {}
        for group in (1, 0):
            fused |= stages.run(algorithm, code, context, Share(everything, [group])).tensors
        assert metrics == packed.metrics
        for other in (split, fused):
            assert codec.tensors_sha256(other) == codec.tensors_sha256(packed.tensors)
        assert packed.tensors["policy/g00/w0"].dtype == precision
