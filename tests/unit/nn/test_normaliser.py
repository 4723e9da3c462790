"""Normalisers of values and of networks' inputs, against numbers by hand and against all inputs at once."""

import math

import numpy as np
import pytest
from drawn_policies import ALONE, SHARED, SPEC, observation, weights

from marless.functions.environments.base import Observation
from marless.functions.errors import BadRequest
from marless.functions.nn.normaliser import InputStatistics, Normaliser
from marless.functions.policies import Policy


def test_before_the_first_update_it_is_the_identity():
    values = np.array([-3.0, 0.0, 7.5])
    np.testing.assert_array_equal(Normaliser().normalise(values), values)
    np.testing.assert_array_equal(Normaliser().denormalise(values), values)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_first_update_gives_mean_and_deviation_of_targets(decay):
    found = Normaliser().update(np.array([1.0, 3.0]), decay)  # mean 2, mean square 5, variance 1
    assert found.centre == pytest.approx(2.0, rel=1e-12)
    assert found.scale == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(found.normalise(np.array([1.0, 3.0])), [-1, 1], rtol=1e-12)


def test_two_updates_are_weighted_by_decay_and_debiased():
    # Decay 0.5. First: mean 0.5 * 2 = 1, square 0.5 * 5 = 2.5, weight 0.5. Second, targets 6 and 8 (mean 7, mean square
    # 50): mean 0.5 + 3.5 = 4, square 1.25 + 25 = 26.25, weight 0.75. Debiased: centre 16/3, mean square 35,
    # variance 35 - 256/9 = 59/9.
    found = Normaliser().update(np.array([1.0, 3.0]), 0.5).update(np.array([6.0, 8.0]), 0.5)
    assert found == Normaliser(4.0, 26.25, 0.75)
    assert found.centre == pytest.approx(16 / 3, rel=1e-12)
    assert found.scale == pytest.approx(math.sqrt(59) / 3, rel=1e-12)
    # (7 - 16/3) / (√59 / 3) = 5 / √59
    np.testing.assert_allclose(found.normalise(np.array([7.0])), [5 / math.sqrt(59)], rtol=1e-12)


def test_a_constant_target_has_the_least_scale():
    found = Normaliser().update(np.full(4, 3.0), 0.9)
    assert found.scale == pytest.approx(0.1, rel=1e-12)  # √0.01
    np.testing.assert_allclose(found.normalise(np.array([3.0, 3.1])), [0, 1], atol=1e-12)


def test_denormalise_inverts_normalise():
    found = Normaliser().update(np.array([-5.0, 2.0, 30.0]), 0.9).update(np.array([1.0]), 0.9)
    values = np.linspace(-40, 40, 9)
    np.testing.assert_allclose(found.denormalise(found.normalise(values)), values, rtol=1e-12, atol=1e-12)


def test_float32_targets_are_summed_in_float64():
    # 4097² = 16,785,409 is odd and above 2^24, so float32 does not have it.
    found = Normaliser().update(np.full(1000, 4097.0, np.float32), 0.0)
    assert found == Normaliser(4097.0, 4097.0**2, 1.0)


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
def test_inputs_are_normalised_and_cut_at_ten_deviations(precision):
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
