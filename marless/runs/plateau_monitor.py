"""Follows the returns of a run round by round and warns when they reach a plateau."""

from collections.abc import Iterable

import msgspec

from marless.coordinator.core.state import Plan, RoundLine
from marless.reports.plateau import Plateau, plateau
from marless.reports.text import counted

# Settings to suggest, if the algorithm has them.
_HINTS = ("gamma", "lr", "ent_coef", "epsilon_steps")


class PlateauMonitor:
    """`plateau` is as of the last `look`, None while the run improves or is too short to tell."""

    def __init__(self, plan: Plan, lines: Iterable[RoundLine]) -> None:
        self._plan = plan
        self._returns: list[float] = []
        self.plateau: Plateau | None = None
        for line in lines:
            self.add(line)

    def add(self, line: RoundLine) -> None:
        """Adds a round. Where two sides learn, returns do not count: one side's progress lowers the other's return."""
        fixed_side, sides = self._plan.config.opponents.side, list(line.side_returns.values())
        if line.return_mean is not None and not sides:
            self._returns.append(line.return_mean)
        elif fixed_side is not None and len(sides) == 2:
            self._returns.append(sides[1 - fixed_side])

    def look(self) -> str:
        """The warning when a plateau has appeared since the last look, else ''."""
        before, self.plateau = self.plateau, plateau(self._returns)
        if self.plateau is None or before is not None:
            return ""
        return warning(self._plan, self.plateau)


def warning(plan: Plan, plateau_: Plateau) -> str:
    """Describes the plateau and suggests settings to try."""
    fields = {field.name for field in msgspec.structs.fields(plan.config.algorithm)}
    keys = [f"algorithm.{name}" for name in _HINTS if name in fields]
    if plan.config.algorithm.copies > 1:  # a round of too few starts says little about a reply
        keys.append("actors.num_envs")
    hint = f"; if that is not good enough, try another {' or '.join(keys)}" if keys else ""
    if plateau_.rounds > plateau_.of // 2 + 1:
        return f"a plateau: the return has not risen beyond chance in {counted(plateau_.of, 'round')}{hint}"
    return (
        f"a plateau: in the last {counted(plateau_.rounds, 'round')} the return changed by {plateau_.rise:+.3g},"
        f" of {plateau_.gain:.3g} in all{hint}"
    )
