"""Dollars that several runs share. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Purse:
    """Dollars that several runs may spend together, never more: each has an allowance, and what a run leaves goes to
    the others.

    `cap`: None is no limit. `runs`: how many runs there will be that have not begun.
    """

    cap: float | None
    runs: int
    allowances: dict[str, float] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)

    def begin(self, run: str, dollars: float) -> None:
        """A run begins, or goes on, that has spent so much."""
        if self.cap is None:
            return
        free = self.cap - sum(self.allowances.values()) - sum(self.spent.values()) + self.spent.pop(run, 0.0)
        self.allowances[run] = max(dollars, dollars + (free - dollars) / max(1, self.runs))
        self.runs -= 1

    def end(self, run: str, dollars: float, will_return: bool = False) -> None:
        """A run ended, or pauses and may go on; the others get what it leaves."""
        if self.cap is None:
            return
        remainder = self.allowances.pop(run, dollars) - dollars
        self.spent[run] = dollars
        self.runs += will_return
        # What the others that have not begun get is kept for them.
        shares = len(self.allowances) + max(0, self.runs)
        for study_run in self.allowances:
            self.allowances[study_run] += remainder / shares

    def allowance(self, run: str) -> float | None:
        """What the run's bill may reach; None without limit."""
        return self.allowances.get(run)


def least(limits: Iterable[float | None]) -> float | None:
    """The lowest limit; None without one."""
    return min((limit for limit in limits if limit is not None), default=None)
