"""Exact draw frequencies of transitions, and the importance weights that correct for them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marless.functions.algorithms.value.priorities import importance_weights, proportional_priorities, sample_indices


def grid(parts):
    return (np.arange(parts) + 0.5) / parts


def test_priorities_are_worked_out_by_hand():
    # (|δ| + 1) to the power ½.
    got = proportional_priorities(np.array([0.0, -3.0, 8.0], np.float32), alpha=0.5, epsilon=1.0)
    np.testing.assert_array_equal(got, [1, 2, 3])
    np.testing.assert_array_equal(proportional_priorities(np.array([0.0, -3.0, 8.0]), 0.0, 1.0), [1, 1, 1])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=30).filter(any))
def test_single_draw_finds_indices_in_exact_proportion(wanted):
    priorities = np.array(wanted, np.float64)
    found = [sample_indices(priorities, np.array([u]))[0] for u in grid(sum(wanted))]
    np.testing.assert_array_equal(np.bincount(found, minlength=len(wanted)), wanted)


def test_a_minibatch_draws_once_from_each_equal_part():
    # Total 8, four draws: marks within 0-2, 2-4, 4-6 and 6-8. The indices' intervals are 0-1, 1-1, 1-4 and 4-8.
    priorities = np.array([1.0, 0.0, 3.0, 4.0])
    np.testing.assert_array_equal(sample_indices(priorities, np.array([0.25, 0.0, 0.0, 0.9])), [0, 2, 3, 3])
    np.testing.assert_array_equal(sample_indices(priorities, np.array([0.5, 0.9, 0.5, 0.0])), [2, 2, 3, 3])


def test_a_minibatch_finds_every_index_in_exact_proportion():
    priorities = np.array([3.0, 0.0, 5.0, 1.0, 7.0])
    found = np.concatenate([sample_indices(priorities, np.full(4, u)) for u in grid(12)])
    np.testing.assert_array_equal(np.bincount(found), [9, 0, 15, 3, 21])  # 48 draws from a total of 16


def test_last_draw_stays_within_indices_despite_rounding():
    largest = np.nextafter(1.0, 0.0)  # 2 plus this rounds to 3 of 3 parts
    np.testing.assert_array_equal(sample_indices(np.array([1.0, 1.0, 1.0]), np.full(3, largest))[-1:], [2])
    np.testing.assert_array_equal(sample_indices(np.array([1.0, 1.0, 0.0]), np.full(3, largest))[-1:], [1])


def test_large_buffer_is_drawn_by_small_priorities():
    priorities = np.full(1_000_000, 1e-6)
    priorities[123_456] = 1.0  # half of the total
    found = sample_indices(priorities, np.full(1000, 0.5, np.float32))
    # The large priority covers exactly half of the 1,000 parts. Each other part draws another index.
    assert (found == 123_456).sum() in (499, 500, 501)
    assert len({*found.tolist()}) == 1001 - (found == 123_456).sum()


def test_weights_are_worked_out_by_hand():
    # Priorities 1, 2, 5 of a total of 8: P = 1/8, 2/8, 5/8. (3 P)^-1 = 8/3, 4/3, 8/15. Over the greatest: 1, ½, 1/5.
    priorities = np.array([1.0, 2.0, 5.0])
    np.testing.assert_allclose(importance_weights(priorities, np.array([0, 1, 2, 1]), 1.0), [1, 1 / 2, 1 / 5, 1 / 2])
    np.testing.assert_allclose(importance_weights(priorities, np.array([1, 2]), 0.5), [2**-0.5, 5**-0.5])
    np.testing.assert_array_equal(importance_weights(priorities, np.array([1, 2]), 0.0), [1, 1])
    # An index with priority 0 does not count in the maximum.
    np.testing.assert_allclose(importance_weights(np.array([0.0, 2.0, 5.0]), np.array([1, 2]), 1.0), [1, 2 / 5])


def test_fully_weighted_draws_have_uniform_mean():
    priorities, values = np.array([3.0, 1.0, 4.0]), np.array([7.0, -2.0, 5.0])
    found = sample_indices(priorities, grid(8000))
    weights = importance_weights(priorities, found, 1.0)
    assert (weights * values[found]).sum() / weights.sum() == pytest.approx(10 / 3, rel=1e-12)


@pytest.mark.parametrize("wrong", [[], [0.0, 0.0], [1.0, -0.5], [1.0, np.nan], [1.0, np.inf]])
def test_priorities_without_possible_draw_are_refused(wrong):
    with pytest.raises(ValueError, match="numbers from 0 on, and not all are 0"):
        sample_indices(np.array(wrong), np.array([0.5]))
