"""The machine of a run's measurements, and its load."""

import os
import platform
from collections.abc import Callable
from contextlib import suppress

import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine. `load`: the mean number of processes of all programs that wanted a core, 0 if it is unknown."""

    cores: int
    platform: str
    python: str
    load: float = 0.0

    @property
    def busy_text(self) -> str:
        """``measured at load 7 on 2 cores``, or '' if other programs did not keep the machine busy."""
        # A run with a worker for each core has a load of up to one more than the cores: its driver's load.
        is_busy = self.load > self.cores + 1
        return f"measured at load {self.load:.0f} on {self.cores:,} cores" if is_busy else ""


def this_machine(seconds: float, loads: Callable[[], tuple[float, float, float]] = os.getloadavg) -> Machine:
    """Return this machine with its load in the last `seconds`: the system's mean of 1, 5 or 15 minutes."""
    nearest = 0.0
    with suppress(OSError):  # a system without such means
        nearest = loads()[0 if seconds < 180 else 1 if seconds < 600 else 2]
    return Machine(
        cores=os.cpu_count() or 1,
        platform=platform.platform(terse=True),
        python=platform.python_version(),
        load=round(nearest, 2),
    )
