"""The value normaliser against numbers worked out by hand."""

import math

import numpy as np
import pytest

from marless.functions.nn.normaliser import Normaliser


def test_before_the_first_update_it_is_the_identity():
    values = np.array([-3.0, 0.0, 7.5])
    np.testing.assert_array_equal(Normaliser().normalise(values), values)
    np.testing.assert_array_equal(Normaliser().denormalise(values), values)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_after_one_update_it_is_the_targets_own_mean_and_deviation_whatever_the_decay(decay):
    found = Normaliser().update(np.array([1.0, 3.0]), decay)  # mean 2, mean square 5, variance 1
    assert found.centre == pytest.approx(2.0, rel=1e-12)
    assert found.scale == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(found.normalise(np.array([1.0, 3.0])), [-1, 1], rtol=1e-12)


def test_two_updates_are_weighted_by_the_decay_and_debiased():
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
