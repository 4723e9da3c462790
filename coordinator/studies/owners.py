"""Owners: how the pool and the dollars of a study are divided. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.studies.study_file import Owner


def jain(shares: Iterable[float]) -> float:
    """Jain's index of fairness of shares, from 1/n (one has all) to 1 (all have the same).

    (Jain, Chiu & Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation", DEC 1984.)
    """
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def lane_weight(owner: Owner, runs: int) -> float:
    """The weight of each of an owner's `runs` at work: together they have the owner's."""
    return owner.weight / max(1, runs)


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

    def begin(self, run: str, spent: float) -> None:
        """A run begins, or goes on, that has spent so much."""
        if self.cap is None:
            return
        free = self.cap - sum(self.allowances.values()) - sum(self.spent.values()) + self.spent.pop(run, 0.0)
        self.allowances[run] = max(spent, spent + (free - spent) / max(1, self.runs))
        self.runs -= 1

    def end(self, run: str, spent: float, will_return: bool = False) -> None:
        """A run ended, or pauses and may go on; the others get what it leaves."""
        if self.cap is None:
            return
        self.allowances.pop(run, None)
        self.spent[run] = spent
        self.runs += will_return
        free = self.cap - sum(self.allowances.values()) - sum(self.spent.values())
        shares = len(self.allowances) + max(0, self.runs)
        for other in self.allowances:
            self.allowances[other] += free / shares

    def allowance(self, run: str) -> float | None:
        """What the run's bill may reach; None without limit."""
        return self.allowances.get(run)


def least(limits: Iterable[float | None]) -> float | None:
    """The lowest limit; None without one."""
    return min((limit for limit in limits if limit is not None), default=None)


def served_shares(
    busy_s: Mapping[str, float], owners: Mapping[str, str], weights: Mapping[str, float]
) -> dict[str, float]:
    """What each owner was served, divided by the weight, from the seconds of its runs."""
    served = dict.fromkeys(weights, 0.0)
    for run, seconds in busy_s.items():
        served[owners[run]] += seconds
    return {owner: seconds / weights[owner] for owner, seconds in served.items()}
