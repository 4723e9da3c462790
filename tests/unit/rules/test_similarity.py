import math

import numpy as np
import pytest
import scipy.integrate
import scipy.spatial.distance
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from marless.coordinator.rules.similarity import DISTANCES, diversity, matrix, upper
from marless.functions.errors import NotFinite

AGENTS, K, ACTIONS = 4, 6, 3
SEEDS = st.integers(0, 2**32 - 1)
METRICS = ("jsd", "hellinger", "w2", "action")
HIGHEST = {"jsd": math.sqrt(math.log(2)), "hellinger": 1.0, "regret": 1.0}


def probabilities(agents=AGENTS):
    """Rows of few different weights, so that ties, zeros and certain actions are common."""
    weights = hnp.arrays(np.float64, (agents, K, ACTIONS), elements=st.sampled_from([0.0, 1e-30, 0.1, 1.0, 7.0]))
    return weights.map(
        lambda rows: (rows + (rows.sum(-1, keepdims=True) == 0)) / (rows + 1e-300).sum(-1, keepdims=True)
    )


def gaussians(agents=AGENTS):
    shape = (agents, K, 1, ACTIONS)
    means = hnp.arrays(np.float64, shape, elements=st.floats(-100, 100))
    spreads = hnp.arrays(np.float64, shape, elements=st.floats(1e-3, 1e3))
    return st.tuples(means, spreads).map(lambda parts: np.concatenate(parts, axis=2))


def numbers(agents=AGENTS):
    return hnp.arrays(np.float64, (agents, K, ACTIONS), elements=st.floats(-1e3, 1e3))


def clouds(agents=AGENTS):
    return SEEDS.map(lambda seed: np.random.default_rng(seed).normal(size=(agents, 5 * K, 2)))


TABLES = {
    "jsd": probabilities(),
    "kde-kl": clouds(),
    "hellinger": gaussians(),
    "w2": gaussians(),
    "regret": numbers(),
    "action": numbers(),
}


def test_every_distance_is_tried_here():
    assert set(TABLES) == set(DISTANCES)


@pytest.mark.parametrize("name", DISTANCES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_distances_are_symmetric_non_negative_and_reflexive(name, data):
    distances = matrix(DISTANCES[name], data.draw(TABLES[name]))
    assert (distances == distances.T).all()
    assert (np.diag(distances) == 0).all()
    assert (distances >= 0).all()
    assert (distances <= HIGHEST.get(name, math.inf) + 1e-12).all()


@pytest.mark.parametrize("name", DISTANCES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_pair_contribution_is_independent_of_order(name, data):
    contributions = DISTANCES[name].contributions(data.draw(TABLES[name]))
    np.testing.assert_allclose(contributions, contributions.swapaxes(0, 1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", DISTANCES)
@given(data=st.data(), order=st.permutations(range(AGENTS)))
@settings(max_examples=25, deadline=None)
def test_renumbering_the_agents_renumbers_the_matrix(name, data, order):
    tables = data.draw(TABLES[name])
    expected = matrix(DISTANCES[name], tables)[np.ix_(order, order)]
    np.testing.assert_allclose(matrix(DISTANCES[name], tables[order]), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", DISTANCES)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_distance_is_independent_of_other_agents(name, data):
    tables = data.draw(TABLES[name])
    pair = matrix(DISTANCES[name], tables[[0, 2]])[0, 1]
    assert matrix(DISTANCES[name], tables)[0, 2] == pytest.approx(pair, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", DISTANCES)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_agents_that_are_the_same_have_no_distance(name, data):
    tables = data.draw(TABLES[name])
    assert matrix(DISTANCES[name], tables[[0, 1, 0]])[0, 2] == 0


@pytest.mark.parametrize("name", METRICS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_distances_satisfy_triangle_inequality(name, data):
    distances = matrix(DISTANCES[name], data.draw(TABLES[name]))
    detours = distances[:, :, np.newaxis] + distances[np.newaxis]
    # A square root turns rounding of 1e-16 into 1e-8.
    assert (distances[:, np.newaxis] <= detours + 1e-7).all()


@given(tables=probabilities())
@settings(max_examples=60, deadline=None)
def test_one_observation_gives_scipys_jensen_shannon_distance(tables):
    ours = matrix(DISTANCES["jsd"], tables[:, :1])
    for i in range(AGENTS):
        for j in range(AGENTS):
            assert ours[i, j] == pytest.approx(scipy.spatial.distance.jensenshannon(*tables[[i, j], 0]), abs=1e-7)


def test_rounding_of_transferred_table_does_not_count():
    row = np.array([0.1, 0.2, 0.7])
    tables = np.array([[row * (1 + 1e-6)], [row]])
    assert matrix(DISTANCES["jsd"], tables)[0, 1] < 1e-7


def test_the_squared_hellinger_distance_is_its_integral():
    a, b = scipy.stats.norm(0.3, 0.5), scipy.stats.norm(-0.4, 1.2)
    overlap, _ = scipy.integrate.quad(lambda x: math.sqrt(a.pdf(x) * b.pdf(x)), -20, 20)
    ours = matrix(DISTANCES["hellinger"], np.array([[[[0.3], [0.5]]], [[[-0.4], [1.2]]]]))[0, 1]
    assert ours == pytest.approx(math.sqrt(1 - overlap), rel=1e-8)
    # Independent dimensions: overlaps multiply.
    twice = matrix(DISTANCES["hellinger"], np.array([[[[0.3, 0.3], [0.5, 0.5]]], [[[-0.4, -0.4], [1.2, 1.2]]]]))[0, 1]
    assert twice == pytest.approx(math.sqrt(1 - overlap**2), rel=1e-8)


@given(tables=numbers(2), scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
@settings(max_examples=25, deadline=None)
def test_regret_is_independent_of_value_scale(tables, scale, shift):
    tables = np.round(tables)  # so that scaling makes no ties
    scaled = tables.copy()
    scaled[0] = scaled[0] * scale + shift
    ours, expected = (matrix(DISTANCES["regret"], t)[0, 1] for t in (scaled, tables))
    assert ours == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "one", "another", "distance"),
    [
        ("jsd", [[1.0, 0.0]], [[0.0, 1.0]], math.sqrt(math.log(2))),  # as far apart as can be
        # Observations are averaged before the root.
        ("jsd", [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]], math.sqrt(math.log(2) / 3)),
        ("w2", [[[0.0, 0.0], [1.0, 0.0]]], [[[3.0, 0.0], [1.0, 4.0]]], 5.0),  # counts means and spreads
        # First observation: one loses (3 - 1) of a range of 4, another (6 - 5) of a range of 2. Second: they agree.
        ("regret", [[3.0, 1.0, -1.0], [1.0, 0.0, 0.0]], [[5.0, 6.0, 4.0], [9.0, 0.0, 1.0]], (0.5 + 0.5) / 2 / 2),
        ("regret", [[2.0, 2.0]], [[2.0, 2.0]], 0.0),  # equal values give no regret
        ("action", [[0.0, 0.0], [1.0, 1.0]], [[0.3, 0.4], [1.0, 1.0]], 0.25),
    ],
)
def test_distances_are_those_worked_out_by_hand(name, one, another, distance):
    assert matrix(DISTANCES[name], np.array([one, another]))[0, 1] == pytest.approx(distance, rel=1e-12, abs=0)


@pytest.mark.parametrize("width", [1, 3])
def test_kernel_densities_are_scipys(width):
    rng = np.random.default_rng(1)
    tables = np.stack([rng.normal(0, 1, (40, width)), rng.normal(1, 2, (40, width))])
    densities = [scipy.stats.gaussian_kde(samples.T) for samples in tables]

    def left_out(agent):
        kernel = scipy.stats.multivariate_normal(np.zeros(width), densities[agent].covariance)
        at = [[kernel.pdf(x - y) for j, y in enumerate(tables[agent]) if j != i] for i, x in enumerate(tables[agent])]
        return np.log(np.mean(at, axis=1))

    there = left_out(0) - densities[1].logpdf(tables[0].T)
    back = left_out(1) - densities[0].logpdf(tables[1].T)
    ours = DISTANCES["kde-kl"].contributions(tables)
    np.testing.assert_allclose(ours[0, 1], (there + back) / 2, rtol=1e-4, atol=1e-5)
    assert matrix(DISTANCES["kde-kl"], tables)[0, 1] == pytest.approx((there.mean() + back.mean()) / 2, rel=1e-4)


@pytest.mark.parametrize("means, sds", [((0.0, 1.0), (1.0, 1.0)), ((0.0, 0.5), (1.0, 1.1))])
def test_divergence_of_many_samples_approaches_gaussians(means, sds):
    # Tails do not differ much here: where only one density has samples, the estimate is too high.
    def kl(i, j):
        return math.log(sds[j] / sds[i]) + (sds[i] ** 2 + (means[i] - means[j]) ** 2) / (2 * sds[j] ** 2) - 0.5

    estimates = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        tables = np.stack([rng.normal(mean, sd, (1000, 1)) for mean, sd in zip(means, sds, strict=True)])
        estimates.append(matrix(DISTANCES["kde-kl"], tables)[0, 1])
    expected = (kl(0, 1) + kl(1, 0)) / 2
    # Student's t with 7 degrees of freedom is beyond 6 once in 2,000 times.
    assert abs(np.mean(estimates) - expected) < 6 * scipy.stats.sem(estimates)
    assert np.mean(estimates) == pytest.approx(expected, rel=0.25)


def test_twins_are_not_separated_by_own_samples():
    # With an agent's own sample left in, the estimate for two equal densities of 50 samples is about +0.3.
    rng = np.random.default_rng(3)
    estimates = [DISTANCES["kde-kl"].contributions(rng.normal(size=(2, 50, 2)))[0, 1].mean() for _ in range(100)]
    assert abs(np.mean(estimates)) < 0.1


def test_divergence_is_independent_of_origin():
    tables = np.random.default_rng(4).normal(size=(3, 40, 2)) * [[[1.0]], [[2.0]], [[0.5]]]
    rule = DISTANCES["kde-kl"]
    np.testing.assert_allclose(matrix(rule, tables + 1e6), matrix(rule, tables), rtol=1e-7)


def test_motionless_agent_still_has_density():
    tables = np.stack([np.zeros((20, 2)), np.random.default_rng(4).normal(size=(20, 2))])
    assert matrix(DISTANCES["kde-kl"], tables)[0, 1] > 0


@pytest.mark.parametrize(
    "name, tables, error",
    [
        ("jsd", np.ones((2, 0, 3)), ValueError),
        ("jsd", np.ones((2, 3)), ValueError),
        ("kde-kl", np.ones((2, 1, 3)), ValueError),
        ("w2", np.full((2, 3, 2, 1), np.nan), NotFinite),
    ],
)
def test_tables_that_say_nothing_are_refused(name, tables, error):
    with pytest.raises(error):
        matrix(DISTANCES[name], tables)


def test_the_bound_of_a_mean_is_scipys_bootstrap():
    tables = np.random.default_rng(5).normal(size=(2, 200, 1))
    away = np.abs(tables[0] - tables[1]).ravel()
    theirs = scipy.stats.bootstrap(
        [away], np.mean, confidence_level=0.95, alternative="less", method="percentile", rng=np.random.default_rng(6)
    )
    ours = upper(DISTANCES["action"], tables, 0.95, np.random.default_rng(7), resamples=2000)
    spread = theirs.confidence_interval.high - away.mean()
    assert ours[0, 1] == pytest.approx(theirs.confidence_interval.high, abs=0.1 * spread)
    assert (ours == ours.T).all()
    assert (np.diag(ours) == 0).all()


@pytest.mark.parametrize("observation", range(4))
def test_every_observation_can_be_drawn_more_than_once(observation):
    tables = np.zeros((2, 4, 1))
    tables[1, observation] = 4.0  # the mean is 3 or more when 3 of 4 draws hit it: a chance of 5 %
    assert upper(DISTANCES["action"], tables, 0.99, np.random.default_rng(0))[0, 1] >= 3.0


def test_all_pairs_are_bounded_by_the_same_draws():
    # Agents 1 and 2 are equal, so agent 0 is equally far from both in every draw.
    tables = np.random.default_rng(8).dirichlet(np.ones(3), (3, 30))
    tables[2] = tables[1]
    bound = upper(DISTANCES["jsd"], tables, 0.9, np.random.default_rng(9), resamples=20)
    assert bound[0, 1] == bound[0, 2]
    assert bound[1, 2] == 0


@given(tables=probabilities(), seed=SEEDS)
@settings(max_examples=20, deadline=None)
def test_more_confidence_asks_for_more_room(tables, seed):
    low, high = (
        upper(DISTANCES["jsd"], tables, level, np.random.default_rng(seed), resamples=50) for level in (0.5, 0.99)
    )
    assert (low <= high).all()


def test_without_spread_the_bound_is_the_distance():
    tables = np.repeat(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), 5, axis=1)
    rule = DISTANCES["jsd"]
    np.testing.assert_allclose(
        upper(rule, tables, 0.95, np.random.default_rng(0)), matrix(rule, tables), rtol=1e-12, atol=0
    )


def test_one_agent_has_no_pairs():
    tables = np.full((1, 4, 2), 0.5)
    assert matrix(DISTANCES["jsd"], tables).tolist() == [[0.0]]
    assert upper(DISTANCES["jsd"], tables, 0.95, np.random.default_rng(0)).tolist() == [[0.0]]
    assert diversity(np.zeros((1, 1))) == 0


def test_diversity_is_the_mean_over_pairs():
    assert diversity(np.array([[0, 1, 2], [1, 0, 6], [2, 6, 0]])) == 3
