"""The table of faults, printed while they are found."""

from collections import Counter
from dataclasses import dataclass, field

from benchmarks.damage.forked import Outcome


@dataclass
class Table:
    """Counts of commands and of faults. `slowest` and `largest` are the most seconds and MB of one command."""

    asked: int = 0
    codes: Counter[tuple[str, int | None]] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    largest: float = 0.0

    def add(self, what: str, command: str, outcome: Outcome) -> None:
        """Counts a command, and shows it if it ended wrongly."""
        self.asked += 1
        self.codes[command, outcome.code] += 1
        self.slowest, self.largest = max(self.slowest, outcome.seconds), max(self.largest, outcome.peak_mb)
        if outcome.fault:
            self.fault(f"{command}: wrong end", f"{what}: {outcome.fault}")

    def fault(self, kind: str, what: str) -> None:
        """Counts and shows a fault."""
        self.faults[kind] += 1
        print(f"{kind}: {what}", flush=True)

    def show(self, inputs: int) -> int:
        """Prints the totals. Returns the number of faults."""
        codes = ", ".join(
            f"{command} {code}: {count}" for (command, code), count in sorted(self.codes.items(), key=str)
        )
        print(f"{inputs} inputs, {self.asked} commands: {codes}")
        print(f"slowest {self.slowest:.1f} s, largest {self.largest:,.0f} MB")
        print(f"{sum(self.faults.values())} faults: {dict(self.faults)}", flush=True)
        return sum(self.faults.values())
