import numpy as np
import pytest

from benchmarks import planted_groups
from benchmarks.planted_groups import Found, cells, compressed, played, separation, tables, twins
from marless.coordinator.rules.similarity import DISTANCES
from marless.functions.algorithms import registry as algorithms
from marless.functions.environments import registry as environments
from marless.functions.messages.team import Team
from marless.functions.policies import Policy

SPEC = environments.spec(planted_groups.TASK)
TEAM = Team(groups=tuple(range(6)))


@pytest.fixture(scope="module")
def drawn():
    ippo = algorithms.algorithm("ippo")
    config = algorithms.configuration(ippo, {}).resolved(SPEC)
    code = algorithms.implementation(ippo)
    return {
        name: array for group in TEAM.groups for name, array in code.initialise(SPEC, TEAM, config, 1, group).items()
    }


def test_separation_is_least_between_over_most_within():
    distance = np.array([[0, 2, 7, 5], [2, 0, 6, 8], [7, 6, 0, 4], [5, 8, 4, 0]])
    assert separation(distance, (0, 0, 1, 1)) == 5 / 4
    assert separation(np.ones((2, 2)) - np.eye(2), (0, 1)) == float("inf")


def test_components_keep_what_varies_and_forget_units():
    # The first two features differ only in units, the last never changes. The third is independent.
    shared, alone = np.random.default_rng(1).normal(size=(2, 2, 50))
    samples = np.stack([shared, 1000 * shared + 3, alone, np.full_like(shared, 7), *np.zeros((2, 2, 50))], axis=-1)
    found = compressed(samples).reshape(-1, planted_groups.COMPONENTS)
    whole = (shared.ravel() - shared.mean()) / shared.std(), (alone.ravel() - alone.mean()) / alone.std()
    assert abs(np.corrcoef(found[:, -1], whole[0])[0, 1]) > 0.99
    assert np.sum(found**2) == pytest.approx(3 * 100)  # three features of variance 1 in 100 rows


def test_twins_are_alike_and_other_policies_are_not(drawn):
    num_envs = twins(drawn, np.random.default_rng(2))
    assert {name.split("/")[0] for name in num_envs} == {"policy"}
    assert {name.split("/")[1] for name in num_envs} == {f"g{agent:02d}" for agent in range(6)}
    first = [num_envs[f"policy/g{agent:02d}/w0"] for agent in range(6)]
    for i in range(6):
        for j in range(i):
            alike = np.corrcoef(first[i].ravel(), first[j].ravel())[0, 1]
            assert 0.99 < alike < 1 if i // 2 == j // 2 else alike < 0.2


def test_every_distance_that_is_compared_gets_its_table(drawn):
    rng = np.random.default_rng(3)
    policy = Policy(SPEC, TEAM, twins(drawn, rng))
    observations, actions = played(policy, 50, address=0)
    tables_by_name = tables(policy, observations, actions, rng)
    assert {DISTANCES[name].needs for name in planted_groups.COMPARED} == set(tables_by_name)
    assert tables_by_name["behaviour"].shape == tables_by_name["values"].shape == (6, 256, 5)
    assert tables_by_name["density"].shape == (6, 50, 4)
    np.testing.assert_allclose(tables_by_name["behaviour"].sum(axis=-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(tables_by_name["behaviour"].argmax(axis=-1), tables_by_name["values"].argmax(axis=-1))


def test_a_row_has_a_cell_for_every_column():
    found = Found(kmeans=[1.0, 0.5], linkage=[1.0], separation=[2.0, 4.0, 9.0], seconds=[0.25, 0.5, 0.75])
    row = ["10", "250", "jsd", *cells(found)]
    assert len(row) == len(planted_groups.HEADER)
    assert row[3:] == ["0.75 (0.50)", "1.00 (1.00)", "4.00 (2.00)", "500.0"]
