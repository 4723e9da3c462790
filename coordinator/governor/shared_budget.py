"""Dollars that several runs share. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Purse:
    """Dollars that several runs may spend together. Each run has an allowance, and its rest goes to the others.

    `cap`: None means unlimited. `runs`: how many runs there will be that have not begun.
    """

    cap: float | None
    runs: int
    allowances: dict[str, float] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)

    def begin(self, run: str, dollars: float) -> None:
        """Begin or continue a run that has spent `dollars`."""
        if self.cap is None:
            return
        free = self.cap - sum(self.allowances.values()) - sum(self.spent.values()) + self.spent.pop(run, 0.0)
        self.allowances[run] = max(dollars, dollars + (free - dollars) / max(1, self.runs))
        self.runs -= 1

    def end(self, run: str, dollars: float, will_return: bool = False) -> None:
        """End a run, or pause a run that may continue. The other runs get its rest."""
        if self.cap is None:
            return
        remainder = self.allowances.pop(run, dollars) - dollars
        self.spent[run] = dollars
        self.runs += will_return
        # Runs that have not begun keep their share.
        shares = len(self.allowances) + max(0, self.runs)
        for study_run in self.allowances:
            self.allowances[study_run] += remainder / shares

    def allowance(self, run: str) -> float | None:
        """Return the most dollars of the run's bill, or None if unlimited."""
        return self.allowances.get(run)


def least(limits: Iterable[float | None]) -> float | None:
    """Return the lowest limit, or None."""
    return min((limit for limit in limits if limit is not None), default=None)
