"""Members of a group split by their rewards."""

import numpy as np
import pytest

from marless.coordinator.rules.roles import (
    TOLERANCE,
    RoleHistory,
    proposed_groups,
    random_groups,
    rejects_equal_roles,
    restart,
    separate_pairs,
    skip_round,
    update_role_test,
)

BLOCKS = 8


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def errors_of(roles, rng, added=2.0, noise=0.1):
    """Errors 1 of every model on its own agent's steps, and `added` / 2 more on steps of another role, with noise."""
    roles = np.array(roles)
    different = roles[:, np.newaxis] != roles
    mean = 1 + different * added / 2
    return mean[:, :, np.newaxis] + noise * rng.standard_normal((len(roles), len(roles), BLOCKS))


def looked(history, groups, roles, rng, looks, error=0.05, **settings):
    for _ in range(looks):
        history = update_role_test(history, groups, errors_of(roles, rng, **settings), error)
    return history


def test_members_of_different_roles_split_at_second_look(rng):
    groups, roles = (0, 0, 0, 0, 0, 0), (0, 1, 2, 0, 1, 2)
    first = looked(RoleHistory(), groups, roles, rng, 1)
    assert not first.evidence and not rejects_equal_roles(
        first, 0.05
    )  # the look that suggests groups does not judge them
    second = looked(first, groups, roles, rng, 1)
    assert len(second.evidence) == BLOCKS and rejects_equal_roles(second, 0.05)
    assert proposed_groups(second, groups) == (0, 1, 2, 0, 1, 2)


def test_only_groups_that_share_are_looked_at(rng):
    groups = (0, 1, 0, 1)
    assert proposed_groups(looked(RoleHistory(), groups, (0, 1, 2, 1), rng, 2), groups) == (0, 1, 2, 1)
    alike = looked(RoleHistory(), groups, (0, 1, 0, 1), rng, 2)
    assert proposed_groups(alike, groups) == groups and not alike.evidence


@pytest.mark.parametrize("share, suggested", [(0.9, (0, 0)), (1.1, (0, 1))])
def test_members_within_tolerance_stay_together(rng, share, suggested):
    # By hand: exchanging both models adds `added` to errors of 2.
    found = looked(RoleHistory(), (0, 0), (0, 1), rng, 1, added=2 * TOLERANCE * share, noise=0.0)
    assert proposed_groups(found, (0, 0)) == suggested


def test_rewards_that_every_model_knows_part_nobody(rng):
    zeros = np.zeros((2, 2, BLOCKS))
    found = update_role_test(update_role_test(RoleHistory(), (0, 0), zeros, 0.05), (0, 0), zeros, 0.05)
    assert proposed_groups(found, (0, 0)) == (0, 0) and not rejects_equal_roles(found, 0.05)


def test_pauses_grow_with_looks_without_result(rng):
    history, rounds, pauses = RoleHistory(), 0, []
    for _ in range(12):
        history = looked(history, (0, 0, 0), (0, 0, 0), rng, 1)
        pauses.append(history.rounds_to_skip)
        while history.rounds_to_skip:
            history, rounds = skip_round(history), rounds + 1
    assert pauses == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert rounds == sum(pauses)


def test_run_without_roles_splits_at_stated_rate():
    """At the worst case, a difference as large as the tolerance, in 150 runs of 40 looks."""
    rng, error, wrong, groups = np.random.default_rng(7), 0.2, 0, (0, 0)
    for _ in range(150):
        history = RoleHistory()
        for _ in range(40):
            history = update_role_test(history, groups, errors_of((0, 1), rng, added=2 * TOLERANCE, noise=0.5), error)
            if rejects_equal_roles(history, error):
                wrong += 1
                break
    # A binomial count, three standard deviations above its bound.
    assert 0 < wrong <= 150 * error + 3 * np.sqrt(150 * error * (1 - error))


def test_inconclusive_test_delays_next_and_costs_error(rng):
    history = RoleHistory()
    for _ in range(200):
        history = update_role_test(history, (0, 0), errors_of((0, 1), rng, added=2 * TOLERANCE, noise=0.5), 1e-9)
        if history.tests and not history.evidence and history.rounds_to_skip:
            break
    assert history.tests >= 1
    assert restart(history).tests == history.tests
    under_way = looked(RoleHistory(), (0, 0), (0, 1), rng, 2)
    assert restart(under_way) == RoleHistory(tests=1)


def test_control_splits_equal_numbers_randomly_within_groups():
    groups, finer, seen = (0, 0, 0, 0, 4, 4, 6), (0, 1, 1, 0, 4, 4, 6), set()
    for seed in range(40):
        drawn = random_groups(groups, finer, np.random.default_rng(seed))
        assert drawn[4:] == (4, 4, 6)
        assert sorted(drawn.count(group) for group in set(drawn[:4])) == [2, 2]
        seen.add(drawn[:4])
    assert seen == {(0, 0, 2, 2), (0, 1, 0, 1), (0, 1, 1, 0)}


def test_pairs_split_when_partitions_disagree():
    assert separate_pairs((0, 0, 0, 3), (0, 1, 0, 3)) == [(0, 1), (1, 2)]
    assert separate_pairs((0, 1, 2), (0, 0, 0)) == []
