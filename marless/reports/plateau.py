"""Find out if a run has stopped improving, or never began to. It triggers a warning and decides nothing.

Returns fluctuate, so the lack of a new best in the last rounds says little. A run has a plateau if the hypothesis that
its return rose by a tenth of the total gain is rejected. Relative to such a rise, the observed returns would decline
beyond chance by the test of `marless.coordinator.rules.trend`.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.coordinator.core.state import Plan, RoundLine
from marless.coordinator.rules import trend
from marless.functions.messages.message import Message
from marless.reports.digits import figure
from marless.reports.statistics import summary
from marless.reports.text import counted

FloatArray = NDArray[np.float64]

# Number of means of adjacent rounds: the longest window in `trend.CRITICAL`.
POINTS = 30
# A rise over the last half of the rounds by this share of the total gain counts as progress.
SHARE = 0.1
BEYOND_CHANCE = trend.critical(POINTS, 0.1)
# Fewest rounds to judge that a return has stopped rising, and that it never rose.
FEWEST, FEWEST_EVER = 100, 200
# A rise over all rounds by fewer standard errors than this does not count.
RISEN = 2.0
# Losses are in squared standard deviations of returns, so they begin near 0.5 and fall. They rose to 3 where rewards
# came late, in 60 runs of 12 tasks.
DIVERGED = 100.0
# The entropy of policies that explore no more, as a share of the first round's. Of solved tasks it is as low, so it
# matters on a plateau alone.
EXPLORED = 0.02
# Greedy actions are worse if sampled actions returned more in the last LATE rounds. They must lie above the greedy
# mean's 95 % interval by MEDIUM standard deviations of an episode's return. Cohen, "Statistical Power Analysis for the
# Behavioral Sciences", 1988, calls this a medium effect. Three of 111 runs had it: attention networks in foraging.
LATE, FEWEST_SAMPLED, MEDIUM = 5, 20, 0.5
# Settings to suggest, if the algorithm has them.
_HINTS = ("gamma", "lr", "ent_coef", "epsilon_steps")


class Plateau(Message, frozen=True, kw_only=True):
    """Over the last `rounds` of all `of` rounds the return rose by `rise` (least squares), no more than chance gives.

    `gain` is the range of the run's returns, averaged over as many rounds as one of the points looked at.
    """

    rounds: int
    of: int
    rise: float
    gain: float


def plateau(returns: Sequence[float]) -> Plateau | None:
    """Return the plateau of a run from the mean return of every round, oldest first, or None.

    None means that the return rises or the run is too short to tell. It is checked every tenth round up to 400, with
    AR(1) noise of coefficients 0 to 0.6, Gaussian or heavy-tailed (Student t3). A run with a tenth of its gain in its
    last half is called flat at any time with probability 0.08 or less. For a run that rises in a straight line this is
    0.03 or less. If a run has risen by round 200 by twice the standard deviation of a round's return, the verdict
    "never rose" has probability 0.08 or less. A run that is flat from round 100 on is found with 0.99 or more if the
    noise is 3 % of the gain, with 0.2 or more if it is a tenth. A run that never rises is found with 0.94 at round 200.
    """
    series = np.asarray(returns, dtype=np.float64)
    half = len(series) // (2 * POINTS)
    if len(series) < FEWEST:
        return None
    points, gain = blocks(series, half), float(np.ptp(blocks(series, half, len(series) // half)))
    linear_rise = np.linspace(0.0, SHARE * gain, POINTS)
    if trend.steepness(points - linear_rise) > BEYOND_CHANCE:
        return _plateau(points, half, len(series), gain)
    everything = len(series) // POINTS
    # The steepness of returns that never change is undefined.
    if len(series) >= FEWEST_EVER and not trend.steepness(-blocks(series, everything)) >= RISEN:
        return _plateau(blocks(series, everything), everything, len(series), gain)
    return None


def blocks(series: FloatArray, size: int, count: int = POINTS) -> FloatArray:
    """Means ``[count]`` of the last `count` segments of `size` values ``[n]``."""
    return np.asarray(series[len(series) - size * count :].reshape(count, size).mean(axis=1))


def _plateau(points: FloatArray, size: int, rounds: int, gain: float) -> Plateau:
    return Plateau(rounds=size * POINTS, of=rounds, rise=trend.slope(points) * (POINTS - 1), gain=gain)


class PlateauMonitor:
    """Follows the returns of a run round by round, and warns of a plateau.

    `plateau` is as of the last `look`, None while the run improves or is too short to tell.
    """

    def __init__(self, plan: Plan, lines: Iterable[RoundLine]) -> None:
        self._plan = plan
        self._returns: list[float] = []
        self._entropies: list[float] = []
        self._sampled: list[tuple[float, float]] = []
        self._loss, self._has_diverged = 0.0, False
        self.plateau: Plateau | None = None
        for line in lines:
            self.add(line)

    def add(self, line: RoundLine) -> None:
        """Add a round. Returns do not count if two sides learn, because one side's progress lowers the other's."""
        self._entropies += sorted(_measured(line, "entropy"))[-1:]
        self._loss = max([*_measured(line, "value_loss"), *_measured(line, "td_loss")], default=0.0)
        fixed_side, sides = self._plan.config.opponents.side, list(line.side_returns.values())
        if line.return_mean is not None and not sides:
            self._returns.append(line.return_mean)
            self._sampled.append((line.return_mean, line.return_sd or np.inf))
        elif fixed_side is not None and len(sides) == 2:
            self._returns.append(sides[1 - fixed_side])

    def look(self, final: Sequence[float] = ()) -> str:
        """Return a warning that is new since the last look, else ''. `final`: returns of the final evaluation."""
        before, self.plateau = self.plateau, plateau(self._returns)
        if gap := self._greedy_gap(final):
            return gap
        if self.plateau is not None and before is None:
            return warning(self._plan, self.plateau, self._has_stopped_exploring())
        if self._has_diverged or self._loss <= DIVERGED:
            return ""
        self._has_diverged = True
        return f"values diverge: their loss is {self._loss:.3g}, and usually below 1; try a smaller algorithm.lr"

    def _greedy_gap(self, final: Sequence[float]) -> str:
        """Return the warning that the greedy returns `final` are far below the sampled returns of training, or ''."""
        config = self._plan.config
        is_alike = config.evaluation.greedy and not config.evaluation.options and config.offline.dataset is None
        if not final or len(self._sampled) < FEWEST_SAMPLED or not is_alike:
            return ""
        greedy, (mean, sd) = summary(final), np.mean(self._sampled[-LATE:], axis=0)
        if config.algorithm.behaviour(0).kind != "sample" or mean - MEDIUM * sd <= max(greedy.ci95 or (np.inf,)):
            return ""
        returns = f"greedy actions return {figure(greedy.mean)}, and sampled ones {figure(mean)} in training"
        return f"{returns}; to evaluate with sampled actions, set evaluation.greedy=false"

    def _has_stopped_exploring(self) -> bool:
        """Return True if all policies draw their actions almost greedily. Densities have no such measure."""
        first, last = (self._entropies or [0.0])[0], (self._entropies or [0.0])[-1]
        return first > 0 and last < EXPLORED * first


def _measured(line: RoundLine, name: str) -> list[float]:
    """Return a metric of each group of agents, which has the name ``stage/name/group``."""
    return [value for key, value in line.metrics.items() if key.split("/")[1:2] == [name]]


def warning(plan: Plan, plateau_: Plateau, is_greedy: bool = False) -> str:
    """Describe the plateau, and suggest settings to try. `is_greedy`: the policies have stopped exploring."""
    fields = {field.name for field in msgspec.structs.fields(plan.config.algorithm)}
    keys = [f"algorithm.{name}" for name in _HINTS if name in fields]
    if plan.config.algorithm.copies > 1:  # a round of too few starts says little about a reply
        keys.append("actors.num_envs")
    hint = f"; if that is not good enough, try another {' or '.join(keys)}" if keys else ""
    if is_greedy and "algorithm.ent_coef" in keys:
        hint = "; the policies have stopped exploring; if that is not good enough, try a larger algorithm.ent_coef"
    if plateau_.rounds > plateau_.of // 2 + 1:
        return f"a plateau: the return has not risen beyond chance in {counted(plateau_.of, 'round')}{hint}"
    return (
        f"a plateau: in the last {counted(plateau_.rounds, 'round')} the return changed by {plateau_.rise:+.3g},"
        f" of {plateau_.gain:.3g} in all{hint}"
    )
