"""The record of a measurement, which this benchmark and docs/results/resources.md print as a table."""

import statistics

import msgspec

from benchmarks.comparisons.measurement_record import Record, RecordFile
from benchmarks.table import verdict

HEADER = ("actions", "ms", "against", "actions", "predicted", "rounds", "predicted", "asked for")


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """The other way's time over the own one's, round by round, and as predicted. `least` bounds the values."""

    values: list[float]
    predicted: float
    least: float | None = None

    @property
    def median(self) -> float:
        """Of all rounds."""
        return statistics.median(self.values)

    def cells(self) -> tuple[str, str]:
        """Return the measured value, with the lowest and the highest, and the predicted value."""
        return f"{self.median:.2f} ({min(self.values):.2f} to {max(self.values):.2f})", f"{self.predicted:.2f}"

    def verdict(self) -> str:
        """Return the verdict on the bar, or '' without a bar."""
        if self.least is None:
            return ""
        return f"≥ {self.least:.2f}: {verdict(self.values, self.least)}"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One way to serve actions against another: times from a question to its answer, and of rounds."""

    name: str
    against: str
    action_ms: float
    actions: Ratio
    rounds: Ratio

    def cells(self) -> tuple[str, ...]:
        """The row of the table, in the order of `HEADER`."""
        verdicts = [
            f"{what} {ratio.verdict()}"
            for what, ratio in (("actions", self.actions), ("rounds", self.rounds))
            if ratio.least is not None
        ]
        measured = (*self.actions.cells(), *self.rounds.cells())
        return self.name, f"{self.action_ms:.0f}", self.against, *measured, "; ".join(verdicts)


FILE = RecordFile("resources", Record[Comparison], HEADER)
