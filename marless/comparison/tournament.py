"""Cross-play: every team plays every other, once with each side, and what that says of their strength.

A pair's score is the mean over both sides, so that a side's advantage by the rules of the task cancels, as in chess
where each plays as many games with White.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from coordinator.core.league_matches import FIRST_RATING, TENFOLD
from functions.environments.base import EnvTask
from marless.reports import crossplay
from marless.reports.policy import TeamPolicy

Array = NDArray[np.float64]

_STEPS = 2000


class Tournament(msgspec.Struct, frozen=True, kw_only=True):
    """`scores[i][j]`: how much of the episodes team i wins against team j, a draw being a half; `errors`: half the
    width of its 95 % interval; `returns[side][i][j]`: the side's mean return where i plays it and j all others. Ratings
    are Elo's, by team, 1,200 for the first team."""

    task: str
    teams: tuple[str, ...]
    episodes: int
    sampled: bool
    scores: tuple[tuple[float, ...], ...]
    errors: tuple[tuple[float, ...], ...]
    returns: dict[str, tuple[tuple[float, ...], ...]]
    ratings: tuple[float, ...]


def play(
    teams: Mapping[str, TeamPolicy | None],
    task: EnvTask,
    episodes: int,
    seed: int,
    sampled: bool = False,
    progress: Callable[[str], None] = lambda pair: None,
) -> Tournament:
    """Plays `episodes` episodes of every ordered pair with every side, all on the same start states, greedily or with
    `sampled` actions; None as a team acts at random, a scripted one by its script.

    Raises `ValueError` as `crossplay.agent_returns` and `crossplay.sides` do.
    """
    sides, names = crossplay.sides(task), tuple(teams)
    shape = (len(sides), len(names), len(names))
    means, variances, returns = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for i, team in enumerate(names):
        for j, other in enumerate(names):
            progress(f"{i * len(names) + j + 1} of {len(names) ** 2} pairs: {team} against {other}")
            for number, side in enumerate(sides):
                outcome = crossplay.agent_returns(task, teams[team], side, teams[other], episodes, seed, sampled)
                ours = outcome[:, crossplay.members(task, side)].sum(axis=1)
                score = (1 + np.sign(2 * ours - outcome.sum(axis=1))) / 2
                means[number, i, j], variances[number, i, j] = score.mean(), score.var(ddof=1)
                returns[number, i, j] = ours.mean()
    scores = means.mean(axis=0)
    errors = 1.96 * np.sqrt(variances.sum(axis=0) / episodes) / len(sides)
    return Tournament(
        task=task.name,
        teams=names,
        episodes=episodes,
        sampled=sampled,
        scores=_rows(scores),
        errors=_rows(errors),
        returns={side: _rows(returns[number]) for number, side in enumerate(sides)},
        ratings=tuple(ratings(scores).tolist()),
    )


def ratings(scores: Array) -> Array:
    """Elo's ratings ``[n]`` of most likelihood, from the mean scores ``[n, n]`` of pairs of equally many episodes.

    Found by the iteration of Hunter, "MM algorithms for generalized Bradley-Terry models", 2004, with a draw as half a
    win for each, and one draw in fifty episodes beside those of each pair, so that who won all of them has a finite
    rating.
    """
    wins = (scores + (1 - scores).T) / 2 * 0.98 + 0.01
    np.fill_diagonal(wins, 0.0)
    strength, games = np.ones(len(wins)), 1.0 - np.eye(len(wins))
    for _ in range(_STEPS):
        strength = wins.sum(axis=1) / (games / (strength[:, None] + strength[None])).sum(axis=1)
        strength /= strength[0]
    elo: Array = FIRST_RATING + TENFOLD * np.log10(strength)
    return elo


def _rows(matrix: Array) -> tuple[tuple[float, ...], ...]:
    rows: Sequence[Sequence[Any]] = matrix.tolist()
    return tuple(tuple(row) for row in rows)
