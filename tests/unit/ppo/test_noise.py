"""The two halves of the gradient noise scale, on small explicit gradients."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marless.functions.algorithms.ppo.gradient_noise import MOST_SAMPLES, noise_estimate, sample_blocks


def test_two_gradients_worked_out_by_hand():
    # Mean (2, 1), sample variances 2 and 0, |mean|² = 5. Of the 5, 2 / 2 is noise.
    found = noise_estimate(np.array([[1.0, 1.0], [3.0, 1.0]]))
    assert found == (2.0, 4.0)


def test_square_is_negative_for_pure_noise():
    # Mean 0. Sample variance 2.
    assert noise_estimate(np.array([[1.0], [-1.0]])) == (2.0, -1.0)


def test_trace_per_rollout_follows_from_any_samples():
    gradients = np.array([[1.0, 1.0], [3.0, 1.0]])
    assert noise_estimate(gradients, 3.0) == (6.0, 4.0)
    assert noise_estimate(gradients, 0.5) == (1.0, 4.0)


def test_equal_gradients_have_no_noise():
    assert noise_estimate(np.tile([3.0, 4.0], (5, 1))) == (0.0, 25.0)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_both_estimates_are_unbiased_over_all_samples(count):
    possible = np.array([[0.0, 1.0, -2.0], [1.5, 1.0, 3.0], [-4.0, 0.5, 0.0]])
    found = [noise_estimate(possible[list(chosen)]) for chosen in itertools.product(range(3), repeat=count)]
    mean = possible.mean(axis=0)
    trace, square = np.mean(found, axis=0)
    assert trace == pytest.approx(np.square(possible - mean).sum() / 3)
    assert square == pytest.approx(mean @ mean)


def test_the_estimates_are_of_double_precision():
    gradients = np.array([[1e4, 1.0], [1e4, 3.0]], np.float32)
    assert noise_estimate(gradients) == (2.0, 1e8 + 4 - 1)


@pytest.mark.parametrize("count", [0, 1])
def test_one_gradient_says_nothing_of_noise(count):
    with pytest.raises(ValueError, match=f"at least 2 samples, got {count}"):
        noise_estimate(np.ones((count, 3)))


def test_samples_are_half_rollouts_or_several():
    # Three rollouts of four environments. Half of each.
    assert sample_blocks(3, 12) == ((range(0, 2), range(4, 6), range(8, 10)), 0.5)
    # 17 rollouts of four environments: eight samples of half of two rollouts. The last rollout is left out.
    parts, size = sample_blocks(17, 68)
    assert parts[:2] == (range(0, 4), range(8, 12))
    assert (len(parts), parts[-1], size) == (MOST_SAMPLES, range(56, 60), 1.0)


def test_rollout_of_one_copy_is_one_sample():
    assert sample_blocks(2, 2) == ((range(0, 1), range(1, 2)), 1.0)


@given(st.integers(1, 60), st.integers(1, 9))
def test_samples_are_equal_parts_of_different_rollouts(rollouts, each):
    parts, size = sample_blocks(rollouts, rollouts * each)
    assert len(parts) == min(rollouts, MOST_SAMPLES)
    assert {len(part) for part in parts} == {round(size * each)}
    owners = [{copy // each for copy in part} for part in parts]
    assert all(owners)
    assert sum(map(len, owners)) == len(set().union(*owners))
    assert max(part[-1] for part in parts) < rollouts * each
