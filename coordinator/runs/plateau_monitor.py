"""The course of a run as its commands follow it round by round, and the warning when it leads nowhere."""

from collections.abc import Iterable

import msgspec

from coordinator.core.state import Plan, RoundLine
from coordinator.reports.plateau import Plateau, plateau
from coordinator.reports.text import counted

# What is worth another try, of what the algorithm has.
_HINTS = ("gamma", "lr", "ent_coef", "epsilon_steps")


class PlateauMonitor:
    """Where the run stands; `plateau` as of the last look, None where it gets better or nobody can tell."""

    def __init__(self, plan: Plan, lines: Iterable[RoundLine]) -> None:
        self._plan = plan
        self._returns: list[float] = []
        self.plateau: Plateau | None = None
        for line in lines:
            self.add(line)

    def add(self, line: RoundLine) -> None:
        """One more round. Where two sides learn none counts: one that gets better keeps the other's return down."""
        fixed, sides = self._plan.config.opponents.side, list(line.side_returns.values())
        if line.return_mean is not None and not sides:
            self._returns.append(line.return_mean)
        elif fixed is not None and len(sides) == 2:
            self._returns.append(sides[1 - fixed])

    def look(self) -> str:
        """A line for the user when a plateau is found that was not there at the last look, else ''."""
        before, self.plateau = self.plateau, plateau(self._returns)
        if self.plateau is None or before is not None:
            return ""
        return warning(self._plan, self.plateau)


def warning(plan: Plan, found: Plateau) -> str:
    """What was found, and what to try."""
    fields = {field.name for field in msgspec.structs.fields(plan.config.algorithm)}
    keys = [f"algorithm.{name}" for name in _HINTS if name in fields]
    hint = f"; if that is not good enough, try another {' or '.join(keys)}" if keys else ""
    if found.rounds > found.of // 2 + 1:
        return f"a plateau: the return has not risen beyond chance in {counted(found.of, 'round')}{hint}"
    return (
        f"a plateau: in the last {counted(found.rounds, 'round')} the return changed by {found.rise:+.3g},"
        f" of {found.gain:.3g} in all{hint}"
    )
