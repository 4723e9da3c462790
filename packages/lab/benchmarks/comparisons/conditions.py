"""The place and time of a measurement, and its program."""

import os
import time
from datetime import UTC, datetime

import msgspec
from threadpoolctl import threadpool_info

from marless.reports.provenance import commit


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a measurement's record. `kernel` computes numpy's matrix products. `load` are the machine's load averages
    of a minute before and after."""

    commit: str | None
    date: str
    cores: int
    kernel: str
    load: tuple[float, float]
    seconds: float

    def sentence(self) -> str:
        """Where and when."""
        before, after = self.load
        return (
            f"Measured on {self.date}, {self.cores} cores, matrix products for {self.kernel}, load {before:.1f} before"
            f" and {after:.1f} after, in {self.seconds:.0f} s, commit {(self.commit or 'unknown')[:8]}."
        )


class Measuring:
    """A measurement that has begun."""

    def __init__(self) -> None:
        self._began, self._load = time.monotonic(), os.getloadavg()[0]

    def conditions(self) -> Conditions:
        """Return the conditions of a measurement that has ended now."""
        kernels = sorted({str(each.get("architecture", "")) for each in threadpool_info()} - {""})
        return Conditions(
            commit=commit(),
            date=datetime.now(UTC).date().isoformat(),
            cores=len(os.sched_getaffinity(0)),
            kernel=" ".join(kernels) or "unknown",
            load=(round(self._load, 2), round(os.getloadavg()[0], 2)),
            seconds=round(time.monotonic() - self._began, 1),
        )
