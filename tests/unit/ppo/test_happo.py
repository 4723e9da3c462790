"""HAPPO: groups learn in a drawn order, on advantages times the ratios of the groups before."""

import dataclasses

import pytest
import synthetic
from plain_ppo import Group

from marless.functions.algorithms.specification import StageSpec
from marless.functions.algorithms.validation import violation
from marless.functions.randomness import generator

CASES = {
    "one choice with memory": ("one choice", True, {"recurrent": True}),
    "several choices, own rewards": ("several choices", True, {"reward": "own"}),
    "numbers": ("numbers", False, {}),
    "normalised observations": ("one choice", True, {"normalise_observations": True}),
}


def scene(case="numbers", sides=()):
    kind, masked, changes = CASES[case]
    return synthetic.context("happo", synthetic.spec(kind, masked, sides), {**synthetic.TIGHT, **changes})


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", CASES)
def test_round_equals_plain_group_by_group_computation(case):
    context, algorithm = scene(case)
    groups, orders = [Group(context, algorithm, group) for group in (0, 1)], set()
    for number in range(4):
        context = dataclasses.replace(context, round=number)
        made = synthetic.learned(context, algorithm).tensors
        first, second = generator(context.seed, number, "turns", "policy", 0).permutation(2)
        orders.add((first, second))
        groups[first].factor = groups[first].factor * 0 + 1
        groups[first].round(number)
        groups[second].factor = groups[first].changed
        assert groups[second].factor.std() > 1e-3
        groups[second].round(number)
        for group in groups:
            group.compare(made)
        state = {key: array for key, array in made.items() if key.split("/")[0] in algorithm.parts}
        context = dataclasses.replace(context, tensors={**context.tensors, **state})
    assert orders == {(0, 1), (1, 0)}


def test_a_group_of_another_side_does_not_count():
    """Agents 0 and 2 learn together against agent 1. The other group's tensors of this round have no effect."""
    context, algorithm = scene(sides=(0, 1, 0))
    together = synthetic.learned(context, algorithm).tensors
    for group in (0, 1):
        alone = synthetic.learned(context, algorithm, (group,)).tensors
        assert all(together[key].tobytes() == array.tobytes() for key, array in alone.items())


def test_sequential_stage_has_all_groups_in_one_function():
    _, algorithm = scene()
    wrong = StageSpec("policy", ("postprocess",), "group", ("policy",), ("policy",), in_turn=True)
    found = violation(dataclasses.replace(algorithm, stages=(*algorithm.stages[:2], wrong)))
    assert found == "stage 'policy' is in_turn, and no team stage that couples"
