"""Which members of a group should part: those whose rewards another member's model does not predict.

While agents are rewarded for the same, one network learns from the data of all; where they are rewarded for different
things by what they see and do, their gradients contradict each other sooner or later. Christianos et al., "Scaling
Multi-Agent Reinforcement Learning with Selective Parameter Sharing", 2021, choose groups by such models once, before
training; here roles may show at any time, such as when a first skill is learnt, and a split has a stated error.
"""

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from coordinator.rules.grouping import agglomerate, groups_of
from coordinator.rules.trial import judge
from functions.contract import Message

Array = NDArray[np.float64]

# Members stay together unless exchanging their models adds this share to their squared errors: models of one reward
# function differ too, where agents see different parts of it.
TOLERANCE = 0.25
# The weight at each look of all that was seen before.
MEMORY = 0.5
# The numbers of looks after which a test may end.
LOOKS = (1, 2, 4, 8)
# A round is left out for every so many looks in a row that saw no difference, and so many for every test that showed
# none.
PATIENCE = 4


class RoleHistory(Message, frozen=True, kw_only=True):
    """What was seen of the members' rewards since the team last changed, and the test that is under way."""

    # What exchanging models adds to the errors of every pair i < j, as a share of them: an average with decaying
    # weights, empty before the first look. Rounded, because every ledger write is billed by the kilobyte.
    added: tuple[float, ...] = ()
    # Numbers of the test, as many for each look as there are blocks of environments: above 0 in the mean if those who
    # would part differ by more than the tolerance.
    evidence: tuple[float, ...] = ()
    # Looks of the test under way, and tests that ended, over the whole run.
    looks: int = 0
    tests: int = 0
    # Looks in a row that saw no difference, and rounds that are still left out.
    quiet: int = 0
    pause: int = 0


def begin_anew(history: RoleHistory) -> RoleHistory:
    """The history of a team whose groups have just changed, or were left as they are after all."""
    return RoleHistory(tests=history.tests + bool(history.evidence))


def skip(history: RoleHistory) -> RoleHistory:
    """The history after a round without a look."""
    return replace(history, pause=max(0, history.pause - 1))


def look(history: RoleHistory, groups: Sequence[int], errors: Array, error: float) -> RoleHistory:
    """The history with one more look: `errors` ``[i, j, blocks]`` are those of the model of agent i on steps of agent j
    within one of the `groups`, zeros elsewhere. `error` is as in `differ`.

    The groups that earlier looks suggest are judged by this one alone, so they are not better on it by chance.
    """
    pairs = separate_pairs(groups, suggestion(history, groups))
    own_error = np.einsum("iik->ik", errors)
    scale = own_error[:, np.newaxis] + own_error
    swap_error = errors + errors.swapaxes(0, 1) - scale
    new_history = replace(history, added=_remember(history.added, swap_error.mean(axis=2), scale.mean(axis=2)))
    if not pairs:
        tests, quiet = history.tests + bool(history.evidence), history.quiet + 1
        return replace(new_history, evidence=(), looks=0, tests=tests, quiet=quiet, pause=quiet // PATIENCE)
    beyond = np.mean([swap_error[i, j] - TOLERANCE * scale[i, j] for i, j in pairs], axis=0)
    evidence = (*history.evidence, *(float(f"{value:.6g}") for value in beyond))
    new_history = replace(new_history, evidence=evidence, looks=history.looks + 1, quiet=0, pause=0)
    if new_history.looks < LOOKS[-1] or differ(new_history, error):
        return new_history
    tests = history.tests + 1
    return replace(new_history, evidence=(), looks=0, tests=tests, pause=PATIENCE * tests)


def suggestion(history: RoleHistory, groups: Sequence[int]) -> tuple[int, ...]:
    """The groups, at least as fine as the present `groups`, in which all members look alike."""
    if not history.added:
        return tuple(groups)
    share = np.zeros((len(groups), len(groups)))
    share[np.triu_indices(len(groups), 1)] = history.added
    share += share.T

    def label(members: Sequence[int]) -> Sequence[int]:
        within_group = share[np.ix_(members, members)]
        return agglomerate(within_group, within_group < TOLERANCE)

    return groups_of(groups, label)


def differ(history: RoleHistory, error: float) -> bool:
    """Whether the test that is under way has shown that members of a group have different roles.

    When no members of a group do, the probability to answer yes in a whole run is at most `error`: the k-th test may
    spend 6 / (pi k)^2 of it, which add up to one.
    """
    if history.looks not in LOOKS:
        return False
    error_of_test = error * 6 / (math.pi * (history.tests + 1)) ** 2
    number = LOOKS.index(history.looks) + 1
    return judge(np.array(history.evidence), 0.0, error_of_test, number, len(LOOKS)) == "commit"


def shuffled(groups: Sequence[int], finer: Sequence[int], rng: np.random.Generator) -> tuple[int, ...]:
    """Parts of the same sizes as the `finer` ones of each of the `groups`, with members drawn by lot."""
    return groups_of(groups, lambda members: rng.permutation([finer[member] for member in members]).tolist())


def separate_pairs(groups: Sequence[int], finer: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs that `groups` hold together and `finer` ones do not."""
    agents = range(len(groups))
    return [(i, j) for i in agents for j in agents[i + 1 :] if groups[i] == groups[j] and finer[i] != finer[j]]


def _remember(past: tuple[float, ...], swap_error: Array, scale: Array) -> tuple[float, ...]:
    """The average with one more look; where errors are 0, everyone knows the reward, and exchanging adds nothing."""
    pairs = np.triu_indices(len(swap_error), 1)
    new = np.divide(swap_error[pairs], scale[pairs], out=np.zeros(len(pairs[0])), where=scale[pairs] > 0)
    average = MEMORY * np.array(past) + (1 - MEMORY) * new if past else new
    return tuple(round(share, 4) for share in average.tolist())
