"""Groups agents by the distances between their policies, and chooses the member that a group starts from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.plug_in_registry import Family, Rule

Cap = Literal["text", "figure"]

Array = NDArray[Any]
Labels = tuple[int, ...]

# How much larger than floor(log2 N) the exponent of the cap is.
_CAPS: dict[Cap, int] = {"text": 1, "figure": 0}
_RESTARTS = 10
_SWEEPS = 100


class GroupingRule(Protocol):
    """Labels 0, 1, ... for n agents of one class, in the order of each group's first member.

    `distance` ``[n, n]`` and its `upper` bound ``[n, n]`` are symmetric. `count` is the number of groups by the
    schedule, and `epsilon` the largest distance within a group. A rule may ignore either.
    """

    def __call__(
        self, distance: Array, upper: Array, count: int, epsilon: float, rng: np.random.Generator
    ) -> Labels: ...


def policy_count(times: int, agents: int, cap: Cap | int) -> int:
    """N', the number of policies of `agents` agents of one class when sharing starts for the `times`-th time (from 1).

    The policy count scheduler of MARLess, §4.3.3: min(2^j, cap, N). The paper contradicts itself. Its text caps at
    2^(⌊log2 N⌋+1), which is above N, so that in the end no agents share. Its Fig. 12(a) keeps four policies for six
    agents, as a cap of 2^⌊log2 N⌋ does. A number is the cap itself. Raises `ValueError` for numbers below 1.
    """
    most = cap if isinstance(cap, int) else 1 << (agents.bit_length() - 1 + _CAPS[cap])
    if min(times, agents, most) < 1:
        raise ValueError(f"times ({times}), agents ({agents}) and the cap ({most}) count from 1")
    return min(1 << min(times, agents), most, agents)


def kmeans(distance: Array, upper: Array, count: int, epsilon: float, rng: np.random.Generator) -> Labels:
    """At most `count` groups by K-Means on the rows of `distance`: the MARLess paper's, §4.3.3.

    The paper does not name its points, and the rows of the symmetrised matrix are the nearest reading. A row holds
    distances to all agents, so the groups of some agents depend on the others. It runs Lloyd's sweeps from ten starts
    after Arthur and Vassilvitskii, "k-means++", 2007, and the lowest sum of squares wins. With as many groups as agents
    none share. Otherwise agents with equal rows stay together, even if that leaves fewer groups. `upper` and `epsilon`
    are ignored.
    """
    if count >= len(distance):
        return tuple(range(len(distance)))
    fits = [_lloyd(distance, _initial_centres(distance, count, rng)) for _ in range(_RESTARTS)]
    return _renumber(min(fits, key=lambda fit: fit.squares).labels)


def linkage(distance: Array, upper: Array, count: int, epsilon: float, rng: np.random.Generator) -> Labels:
    """Average linkage: clusters merge only while `upper` is below `epsilon` for every pair across them.

    So all pairs of a group are closer than `epsilon`, with the confidence of the bound. `count` and `rng` are ignored.
    """
    return agglomerate(distance, upper < epsilon)


GROUPINGS: Family[GroupingRule] = Family(
    "grouping", {"linkage": Rule("agents closer than epsilon", linkage), "kmeans": Rule("the paper's schedule", kmeans)}
)


def agglomerate(distance: Array, mergeable: Array, least: int = 1) -> Labels:
    """Average linkage (Sokal and Michener, 1958) on symmetric distances ``[n, n]``, down to `least` clusters.

    Repeatedly merges the two clusters with the smallest mean distance between members. All pairs across both must be
    `mergeable` ``[n, n]``. Ties go to the lowest first members. Labels as of a `GroupingRule`.
    """
    agents = len(distance)
    labels, sizes = np.arange(agents), np.ones(agents)
    # A cluster's row is the row of its first member. Rows of merged clusters are not allowed.
    totals, pair_mergeable = np.array(distance, np.float64), np.array(mergeable, np.bool_)
    for _ in range(agents - least):
        open_ = np.triu(pair_mergeable, 1)
        if not open_.any():
            break
        means = np.where(open_, totals / np.outer(sizes, sizes), np.inf)
        first, second = (int(index) for index in np.unravel_index(means.argmin(), means.shape))
        totals[first] += totals[second]
        totals[:, first] += totals[:, second]
        pair_mergeable[first] &= pair_mergeable[second]
        pair_mergeable[:, first] &= pair_mergeable[:, second]
        pair_mergeable[second], pair_mergeable[:, second] = False, False
        sizes[first] += sizes[second]
        labels[labels == second] = first
    return _renumber(labels)


def groups_of(classes: Sequence[int], label: Callable[[tuple[int, ...]], Sequence[int]]) -> tuple[int, ...]:
    """Return the group of every agent, each named after its first member.

    Agents of different classes never share a group. `classes[i]` is the class of agent i. `label` returns a label for
    each agent of one class, given in ascending order. It is not called for a class of one agent. The MARLess paper
    leaves open the case of agents with different spaces, which cannot share a network.
    """
    groups = list(range(len(classes)))
    for kind in sorted(set(classes)):
        agents = tuple(agent for agent, of in enumerate(classes) if of == kind)
        first: dict[int, int] = {}
        for agent, group in zip(agents, label(agents) if len(agents) > 1 else (0,), strict=True):
            groups[agent] = first.setdefault(group, agent)
    return tuple(groups)


def choose_base(members: Sequence[int], scores: Mapping[int, float]) -> int:
    """The member with the highest score, the lowest on ties.

    In MARLess, §4.3.4, the score is the convexity ratio of the member's loss.
    """
    return max(sorted(members), key=lambda member: scores[member])


class _Fit(NamedTuple):
    squares: float
    labels: Array


def _lloyd(points: Array, centres: Array) -> _Fit:
    """Assigns points ``[n, d]`` to centres ``[k, d]`` and moves the centres to the means, until nothing changes."""
    labels = np.full(len(points), -1)
    for _ in range(_SWEEPS):
        squares = _squares(points, centres)
        nearest = squares.argmin(axis=1)
        if np.array_equal(nearest, labels):
            break
        labels = nearest
        centres = np.stack([_update_centre(centre, points[labels == index]) for index, centre in enumerate(centres)])
    return _Fit(float(squares.min(axis=1).sum()), labels)


def _update_centre(centre: Array, members: Array) -> Array:
    """Return the mean of a centre's members ``[m, d]``. A centre without members stays."""
    return np.asarray(members.mean(axis=0)) if len(members) else centre


def _initial_centres(points: Array, count: int, rng: np.random.Generator) -> Array:
    """`count` of the points, drawn with a probability proportional to the squared distance from those drawn before."""
    centres = [int(rng.integers(len(points)))]
    while len(centres) < count:
        weights = _squares(points, points[centres]).min(axis=1)
        total = weights.sum()
        # Where all points are drawn, a second copy of the first gets no members.
        centres.append(int(rng.choice(len(points), p=weights / total)) if total > 0 else centres[0])
    return points[centres]


def _squares(points: Array, centres: Array) -> Array:
    """Squared distances ``[n, k]``."""
    return np.asarray(((points[:, np.newaxis] - centres) ** 2).sum(axis=-1))


def _renumber(labels: Array) -> Labels:
    """The same groups, numbered in the order of their first members."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(int(label), len(numbers)) for label in labels)
