"""Normal numbers and orthogonal matrices have the distributions of numpy's."""

import numpy as np
import pytest
from built_kernels import needs_kernels

from marless.functions.nn import layers
from marless.functions.nn.native.random_matrices import orthogonal, standard_normal

pytestmark = needs_kernels


@pytest.mark.parametrize("shape", [(1, 1), (0, 3), (5, 3), (3, 5), (64, 64), (200, 64)])
def test_rows_or_columns_are_orthonormal(shape):
    matrix = orthogonal(np.random.default_rng(1), *shape)
    product = matrix.T @ matrix if shape[0] >= shape[1] else matrix @ matrix.T
    assert matrix.shape == shape
    np.testing.assert_allclose(product, np.eye(min(shape)), rtol=0, atol=1e-12)


def test_normal_numbers_have_moments_of_normal_distribution():
    count = 200_000
    numbers = standard_normal(np.random.default_rng(2), count)
    assert len(numbers) == count
    # E z^k is 0, 1, 0, 3, 0, 15. The variance of z^k is E z^2k less its square: 4.5 standard errors.
    for power, moment, square in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105), (6, 15, 10_395)):
        error = np.sqrt((square - moment**2) / count)
        assert abs(np.mean(numbers**power) - moment) < 4.5 * error, power
    # Neighbours, and numbers drawn as a pair, do not depend on one another.
    for apart in (1, count // 2, int(count * np.pi / 4 / 2)):
        assert abs(np.mean(numbers[:-apart] * numbers[apart:])) < 4.5 / np.sqrt(count - apart)


@pytest.mark.parametrize("draw", [orthogonal, layers.orthogonal])
def test_matrices_are_uniform_over_all_orthogonal_ones(draw):
    rng, count, n = np.random.default_rng(3), 4000, 4
    matrices = np.array([draw(rng, n, n) for _ in range(count)])
    # For Haar's distribution E m = 0, E m^2 = 1/n, E m^4 = 3 / (n (n + 2)). The trace has mean 0 and variance 1
    # (Diaconis and Shahshahani, 1994). Every determinant is 1 as often as -1.
    entries = matrices.reshape(count, -1)
    assert np.abs(entries.mean(axis=0)).max() < 4.5 / np.sqrt(n * count)
    np.testing.assert_allclose((entries**2).mean(axis=0), 1 / n, atol=4.5 * np.sqrt((0.125 - 0.0625) / count))
    np.testing.assert_allclose((entries**4).mean(axis=0), 3 / (n * (n + 2)), atol=0.02)
    traces = matrices.trace(axis1=1, axis2=2)
    assert abs(traces.mean()) < 4.5 / np.sqrt(count)
    assert abs(traces.var() - 1) < 4.5 * np.sqrt(2 / count)
    assert abs(np.linalg.det(matrices).mean()) < 4.5 / np.sqrt(count)
