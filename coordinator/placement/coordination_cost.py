"""The cost of coordination: what the coordinator adds to every wave of tasks, by where it runs."""

from functools import cache
from itertools import accumulate, repeat
from math import ceil
from typing import NamedTuple

from marless.coordinator.pricing.aws_latency import Latency
from marless.coordinator.pricing.bill import LOG_BYTES, Charge, Meter, read_units, write_units
from marless.functions.completion import FAN, ITEM_BYTES
from marless.functions.function_specs import COORDINATOR

# Bytes of a completion report, of a run's manifest, and of a finished round's line: a little above measured sizes.
MEMBER_BYTES, MANIFEST_BYTES, LINE_BYTES = 26, 4000, 2000
# Default memory of the coordinator as a function.
COORDINATOR_MB = 1769


class CoordinationCost(NamedTuple):
    """`wave_s`: seconds between the last task of a wave and the start of the next one's. `deployed`: functions run in
    the cloud and log there. `turn`: the use of one turn of the coordinator as a function; None where it is a process
    that waits for its functions, outside the region if these are deployed. `line`: the use of storing a finished
    round's line."""

    wave_s: float = 0.0
    deployed: bool = False
    turn: Meter | None = None
    line: Meter = Meter()

    @property
    def outside(self) -> bool:
        """Whether answers leave the region."""
        return self.deployed and self.turn is None

    @property
    def detached(self) -> bool:
        """Whether functions are invoked asynchronously."""
        return self.turn is not None

    def wave_meter(self, tasks: int) -> Meter:
        """The additional use of a wave of `tasks` tasks compared with a coordinator on the same machine."""
        logs = Meter(log_bytes=tasks * LOG_BYTES if self.deployed else 0)
        return logs if self.turn is None else logs + self.turn + reports(tasks)


# The local back-end.
LOCAL = CoordinationCost()


def outside(latency: Latency) -> CoordinationCost:
    """Functions in the cloud, and a coordinator process on the user's machine that waits for them."""
    return CoordinationCost(wave_s=latency.attended_wave_s, deployed=True)


def detached(latency: Latency, ledger_bytes: int, memory_mb: int = COORDINATOR_MB) -> CoordinationCost:
    """Functions in the cloud, the coordinator among them, for a run whose ledger item has `ledger_bytes`.

    Commits are left out: every run makes the same ones.
    """
    billed_ms = ceil(latency.turn_ms)
    charge = Charge(invocations=1, billed_ms=billed_ms, mb_ms=memory_mb * billed_ms)
    # Manifest, lease, state, and the topmost set.
    loads = sum(map(read_units, (MANIFEST_BYTES, 0, ledger_bytes, 0)))
    turn = Meter(read_units=loads, log_bytes=LOG_BYTES).add_charge(COORDINATOR, charge)
    return CoordinationCost(
        wave_s=latency.detached_wave_s, deployed=True, turn=turn, line=Meter().add_commit(LINE_BYTES)
    )


@cache
def reports(tasks: int) -> Meter:
    """The use of completion reports of `tasks` tasks: each writes to a set of `FAN`, and for every full set there is a
    write to the set above; the tasks' sets and a header for every answer are read."""
    full, rest = divmod(tasks, FAN)
    meter = Meter(gets=tasks)
    for members, number in ((FAN, full), (rest, bool(rest))):
        sizes = [ITEM_BYTES + size for size in accumulate(repeat(MEMBER_BYTES, members))]
        meter += Meter(write_units=number * sum(map(write_units, sizes)))
        meter += Meter(read_units=number * read_units(max(sizes, default=0)))
    above = -(-tasks // FAN)
    while above > 1:
        meter += Meter(write_units=above)
        above = -(-above // FAN)
    return meter
