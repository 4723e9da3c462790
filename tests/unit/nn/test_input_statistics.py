"""Running statistics of networks' inputs against all inputs at once, and actors that act by them."""

import numpy as np
import pytest
from drawn_policies import ALONE, SHARED, SPEC, observation, weights

from marless.functions.environments.base import Observation
from marless.functions.errors import BadRequest
from marless.functions.nn.normaliser import InputStatistics
from marless.functions.policies import Policy


@pytest.mark.parametrize("sizes", [(5,), (3, 0, 4), (1, 200, 1, 1)])
def test_parts_merge_into_the_statistics_of_the_whole(sizes):
    rng, found = np.random.default_rng(1), InputStatistics.none(3)
    parts = [100 + rng.standard_normal((size, 3)) for size in sizes]
    for part in parts:
        found = found.merge(part)
    whole = np.concatenate(parts)
    count, mean, squares = found.tensor
    np.testing.assert_array_equal(count, len(whole))
    np.testing.assert_allclose(mean, whole.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(squares, len(whole) * whole.var(axis=0), rtol=1e-11)


def test_entries_that_are_not_there_do_not_count():
    rows = np.array([[1.0, 7.0], [3.0, 0.0], [0.0, 0.0]])
    present = np.array([[True, True], [True, False], [False, False]])
    found = InputStatistics.none(2).merge(rows, present)
    np.testing.assert_array_equal(found.tensor, [[2, 1], [2, 7], [2, 0]])
    np.testing.assert_array_equal(found.merge(rows, np.zeros((3, 2), bool)).tensor, found.tensor)


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_inputs_are_normalised_and_cut_off_at_ten_deviations(precision):
    # Means 2 and 0.1, variances 4 and 0.
    found = InputStatistics.none(2).merge(np.array([[0, 0.1], [4, 0.1]], precision))
    inputs = np.array([[0, 0.1], [2, 0.1], [30, 0.2], [-30, 0.0]], precision)
    wanted = [[-1, 0], [0, 0], [10, 10], [-10, -10]]
    normalised = found.normaliser(np.dtype(precision)).forward(inputs)[0]
    assert normalised.dtype == precision
    np.testing.assert_allclose(normalised, wanted, rtol=0, atol=1e-6)


def test_before_the_first_input_nothing_changes_within_ten():
    inputs = np.array([[-9.5, 0.0, 12.0]], np.float32)
    found = InputStatistics.none(3).normaliser(inputs.dtype).forward(inputs)[0]
    np.testing.assert_array_equal(found, [[-9.5, 0, 10]])


@pytest.mark.parametrize("team", [ALONE, SHARED], ids=["alone", "shared with identity"])
def test_actors_act_on_normalised_observations_and_plain_identities(team):
    """As networks without statistics act on observations that are normalised beforehand."""
    tensors, seen, rng = weights(team, np.float64), observation(np.float64, 50), np.random.default_rng(3)
    groups, made = sorted(set(team.groups)), {}
    for group in groups:
        width = seen.values[SPEC.class_of[group]].shape[-1]
        made[group] = np.stack([np.full(width, 4.0), rng.standard_normal(width), rng.uniform(1, 40, width)])
    values = [np.empty_like(part) for part in seen.values]
    for index, kind in enumerate(SPEC.classes):
        for position, agent in enumerate(kind.agents):
            count, mean, squares = made[team.groups[agent]]
            apart = (seen.values[index][:, position] - mean) / np.sqrt(squares / count + 1e-8)
            values[index][:, position] = np.clip(apart, -10, 10)
    statistics = {f"policy/g{group:02d}/seen": array for group, array in made.items()}
    found = Policy(SPEC, team, tensors | statistics).logits(seen)
    expected = Policy(SPEC, team, tensors).logits(Observation(tuple(values), seen.alive))
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-12)


def test_statistics_of_other_observations_are_refused():
    tensors = weights(ALONE, np.float32)
    statistics = {f"policy/g{group:02d}/seen": np.zeros((3, 2)) for group in ALONE.groups}
    with pytest.raises(BadRequest, match="the policy of a has statistics of other observations"):
        Policy(SPEC, ALONE, tensors | statistics)
