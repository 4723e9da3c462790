"""Cross-play: every team plays every other, and their wins give ratings.

Two teams meet twice from each start state, with the sides exchanged. The team with the higher return over all sides of
both episodes wins. So an advantage of one side by the rules of the task counts for both teams and cancels, like the two
pairs of duplicate bridge. Without draws the share of wins is the mean share over the sides, like in chess.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.coordinator.core.league_matches import FIRST_RATING, TENFOLD
from marless.functions.environments.base import EnvTask
from marless.reports import crossplay
from marless.reports.digits import Digits, digits_of
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.policy import TeamPolicy
from marless.reports.section import Section

Array = NDArray[np.float64]

_STEPS = 2000


class Tournament(ShownResult, msgspec.Struct, frozen=True, kw_only=True):
    """The results of a tournament. `scores[i][j]`: team i's share of wins against team j ``[0, 1]``. A draw counts half
    a win. `errors`: half the width of its 95 % interval. `returns[side][i][j]`: the side's mean return where team
    i plays it and team j plays all other sides. `ratings`: Elo's, by team, 1,200 for the first team."""

    task: str
    teams: tuple[str, ...]
    episodes: int
    sampled: bool
    scores: tuple[tuple[float, ...], ...]
    errors: tuple[tuple[float, ...], ...]
    returns: dict[str, tuple[tuple[float, ...], ...]]
    ratings: tuple[float, ...]

    @property
    def headline(self) -> str:
        """Return the task and the number of episodes."""
        how = "sampled" if self.sampled else "greedy"
        return f"{self.task}, {how}, {self.episodes:,} episodes of each pair and side"

    @property
    def sections(self) -> list[Section]:
        """The scores with the ratings, and the mean returns of each side."""
        rows = tuple(
            (team, f"{rating:,.0f}", *map(Digits(2).text, scores))
            for team, rating, scores in zip(self.teams, self.ratings, self.scores, strict=True)
        )
        widest = max(max(row) for row in self.errors)
        how = (
            "(share won by the row's team: the higher return over all sides, from the same start state;"
            f" 95 % interval ± {widest:.2f} at most)"
        )
        return [
            Section("", ("team", "Elo", *self.teams), rows, footnote=how),
            *(self._returns(side) for side in self.returns),
        ]

    def _returns(self, side: str) -> Section:
        matrix = self.returns[side]
        text = digits_of(value for row in matrix for value in row).text
        rows = tuple((team, *map(text, row)) for team, row in zip(self.teams, matrix, strict=True))
        return Section(f"mean return of {side}, played by the row's team", ("team", *self.teams), rows)


def play(
    teams: Mapping[str, TeamPolicy | None],
    task: EnvTask,
    episodes: int,
    seed: int,
    sampled: bool = False,
    progress: Callable[[str], None] = lambda pair: None,
) -> Tournament:
    """Play `episodes` episodes of every ordered pair with every side, all on the same start states, greedily or with
    `sampled` actions. A team of None acts at random, a scripted team by its script.

    Raises `ValueError` as `crossplay.agent_returns` and `crossplay.sides` do.
    """
    sides, names = crossplay.sides(task), tuple(teams)
    count = len(names)
    # By the team of each side: the sides' returns ``[side, episode]``. With two sides, two ordered pairs are one game.
    games: dict[tuple[str, ...], Array] = {}
    side_returns = np.zeros((len(sides), count, count, episodes))
    for i, team in enumerate(names):
        for j, other in enumerate(names):
            progress(f"{i * count + j + 1} of {count**2} pairs: {team} against {other}")
            for number, side in enumerate(sides):
                seats = (*(other,) * number, team, *(other,) * (len(sides) - number - 1))
                if seats not in games:
                    agents = crossplay.agent_returns(task, teams[team], side, teams[other], episodes, seed, sampled)
                    games[seats] = np.stack([agents[:, crossplay.members(task, one)].sum(axis=1) for one in sides])
                side_returns[number, i, j] = games[seats][number]
    scores, errors = win_shares(side_returns)
    return Tournament(
        task=task.name,
        teams=names,
        episodes=episodes,
        sampled=sampled,
        scores=_rows(scores),
        errors=_rows(errors),
        returns={side: _rows(side_returns[number].mean(axis=-1)) for number, side in enumerate(sides)},
        ratings=tuple(ratings(scores).tolist()),
    )


def win_shares(side_returns: Array) -> tuple[Array, Array]:
    """Return each team's share of wins against each other team ``[n, n]``, and half the widths of their 95 % intervals.

    `side_returns` ``[sides, n, n, episodes]``: the side's returns where the first team plays it and the second team all
    other sides. An episode's start state is the same for all teams.
    """
    totals = side_returns.sum(axis=0)
    wins = (1 + np.sign(totals - totals.swapaxes(0, 1))) / 2
    return wins.mean(axis=-1), 1.96 * np.sqrt(wins.var(axis=-1, ddof=1) / wins.shape[-1])


def ratings(scores: Array) -> Array:
    """Return Elo's ratings ``[n]`` of most likelihood, from the scores ``[n, n]`` of pairs of equally many episodes.

    The iteration is from Hunter, "MM algorithms for generalized Bradley-Terry models", 2004. A draw counts half a win.
    One draw is added to every fifty episodes of a pair, so a team that won all its episodes has a finite rating.
    """
    wins = scores * 0.98 + 0.01
    np.fill_diagonal(wins, 0.0)
    strength, games = np.ones(len(wins)), 1.0 - np.eye(len(wins))
    for _ in range(_STEPS):
        strength = wins.sum(axis=1) / (games / (strength[:, None] + strength[None])).sum(axis=1)
        strength /= strength[0]
    return np.asarray(FIRST_RATING + TENFOLD * np.log10(strength))


def _rows(matrix: Array) -> tuple[tuple[float, ...], ...]:
    rows: Sequence[Sequence[Any]] = matrix.tolist()
    return tuple(tuple(row) for row in rows)
