"""Test whether members of a group have different roles: whether another member's model predicts an agent's rewards.

While agents get rewards for the same goal, one network learns from the data of all. If their reward depends differently
on their observations and actions, their gradients contradict each other sooner or later. Christianos et al., "Scaling
Multi-Agent Reinforcement Learning with Selective Parameter Sharing", 2021, choose groups by such models once, before
training. Here the test runs all through training, because roles may show only after a first skill, and its error is
bounded.
"""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import field
from msgspec.structs import replace
from numpy.typing import NDArray

from marless.coordinator.rules.grouping import agglomerate, groups_of
from marless.coordinator.rules.sharing import judge
from marless.functions.messages.message import Message

Array = NDArray[np.float64]

# Members stay together unless exchanging their models adds this share to their squared errors. Models of one reward
# function differ too, if agents see different parts of it.
TOLERANCE = 0.25
# The weight of earlier rounds in the average of errors, at each analysis.
DECAY = 0.5
# A test may reject after these numbers of interim analyses.
ANALYSES = (1, 2, 4, 8)
# A round is skipped for every `PATIENCE` analyses in a row without a difference. Every test that ended without a
# rejection adds as many skipped rounds.
PATIENCE = 4


class RoleHistory(Message, frozen=True, kw_only=True):
    """Errors of the members' reward models since the team last changed, and the sequential test in progress."""

    excess_errors: tuple[float, ...] = field(default=(), name="added")
    """For every pair i < j: what exchanging their reward models adds to their errors, as a share of these; an average
    with decaying weights, empty before the first analysis. Rounded: every ledger write is billed by the kilobyte."""
    evidence: tuple[float, ...] = ()
    """The test's samples, one for each block of environments and interim analysis: the excess error beyond the
    tolerance, averaged over the pairs that would part. Their mean is above 0 if those have different roles."""
    interim_analyses: int = field(default=0, name="looks")
    """Analyses of the test in progress."""
    tests: int = 0
    """Tests that ended, over the whole run."""
    analyses_without_difference: int = field(default=0, name="quiet")
    """Analyses in a row that propose no split."""
    rounds_to_skip: int = field(default=0, name="pause")
    """Rounds until the next analysis."""


def restart(history: RoleHistory) -> RoleHistory:
    """Return the history of a team after a change of its groups, or after a rejected change."""
    return RoleHistory(tests=history.tests + bool(history.evidence))


def skip_round(history: RoleHistory) -> RoleHistory:
    """The history after a round without an analysis."""
    return replace(history, rounds_to_skip=max(0, history.rounds_to_skip - 1))


def update_role_test(
    history: RoleHistory, groups: Sequence[int], cross_errors: Array, significance: float
) -> RoleHistory:
    """Adds one interim analysis.

    `cross_errors` ``[i, j, blocks]``: the squared error of agent i's reward model on agent j's steps, 0 across groups.
    A split that earlier rounds propose is tested on this round's data only (sample splitting), which avoids a bias.
    `rejects_equal_roles` explains `significance`.
    """
    pairs = separate_pairs(groups, proposed_groups(history, groups))
    self_error = np.einsum("iik->ik", cross_errors)
    pooled_error = self_error[:, np.newaxis] + self_error
    excess = cross_errors + cross_errors.swapaxes(0, 1) - pooled_error
    average = _decaying_average(history.excess_errors, excess.mean(axis=2), pooled_error.mean(axis=2))
    history = replace(history, excess_errors=average)
    if not pairs:
        return _without_difference(history)
    beyond_tolerance = np.mean([excess[i, j] - TOLERANCE * pooled_error[i, j] for i, j in pairs], axis=0)
    history = replace(
        history,
        evidence=(*history.evidence, *(float(f"{value:.6g}") for value in beyond_tolerance)),
        interim_analyses=history.interim_analyses + 1,
        analyses_without_difference=0,
        rounds_to_skip=0,
    )
    if history.interim_analyses < ANALYSES[-1] or rejects_equal_roles(history, significance):
        return history
    return _end_test(history, history.tests + 1, PATIENCE * (history.tests + 1))


def _without_difference(history: RoleHistory) -> RoleHistory:
    """Return the history after an analysis without a proposed split. A test in progress ends."""
    in_a_row = history.analyses_without_difference + 1
    history = replace(history, analyses_without_difference=in_a_row)
    return _end_test(history, history.tests + bool(history.evidence), in_a_row // PATIENCE)


def _end_test(history: RoleHistory, tests: int, rounds_to_skip: int) -> RoleHistory:
    return replace(history, evidence=(), interim_analyses=0, tests=tests, rounds_to_skip=rounds_to_skip)


def proposed_groups(history: RoleHistory, groups: Sequence[int]) -> tuple[int, ...]:
    """Return groups of members with interchangeable reward models, at least as fine as the present `groups`."""
    if not history.excess_errors:
        return tuple(groups)
    distances = np.zeros((len(groups), len(groups)))
    distances[np.triu_indices(len(groups), 1)] = history.excess_errors
    distances += distances.T

    def label(members: Sequence[int]) -> Sequence[int]:
        within_group = distances[np.ix_(members, members)]
        return agglomerate(within_group, within_group < TOLERANCE)

    return groups_of(groups, label)


def rejects_equal_roles(history: RoleHistory, significance: float) -> bool:
    """Return whether the test in progress rejects that the members of each group have equal roles.

    If they have equal roles, the probability to reject in a whole run is at most `significance`. The k-th test may
    spend 6 / (pi k)^2 of it, and these shares add up to one.
    """
    if history.interim_analyses not in ANALYSES:
        return False
    significance_of_test = significance * 6 / (math.pi * (history.tests + 1)) ** 2
    number = ANALYSES.index(history.interim_analyses) + 1
    return judge(np.array(history.evidence), 0.0, significance_of_test, number, len(ANALYSES)) == "commit"


def random_groups(groups: Sequence[int], finer: Sequence[int], rng: np.random.Generator) -> tuple[int, ...]:
    """Groups of the same sizes as the `finer` ones within each of the `groups`, with members drawn at random."""
    return groups_of(groups, lambda members: rng.permutation([finer[member] for member in members]).tolist())


def separate_pairs(groups: Sequence[int], finer: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs that share one of the `groups` and none of the `finer` ones."""
    agents = range(len(groups))
    return [(i, j) for i in agents for j in agents[i + 1 :] if groups[i] == groups[j] and finer[i] != finer[j]]


def _decaying_average(past: tuple[float, ...], excess: Array, pooled_error: Array) -> tuple[float, ...]:
    """Return the average with one more analysis. If errors are 0, all models know the reward, and the excess is 0."""
    pairs = np.triu_indices(len(excess), 1)
    new = np.divide(excess[pairs], pooled_error[pairs], out=np.zeros(len(pairs[0])), where=pooled_error[pairs] > 0)
    average = DECAY * np.array(past) + (1 - DECAY) * new if past else new
    return tuple(round(share, 4) for share in average.tolist())
