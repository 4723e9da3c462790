"""The cost of coordination: the time and use that the coordinator adds to every wave, by its location.

Latencies of AWS besides the work of tasks are medians per request. Estimates before a run need them. Measurements of
the run then replace them. Tails, throttling and retries are left out. Each has its source or a mark. [aws] means
published by AWS, and [secondary] means measured by others. [measured] means measured for this project on the named
machine. [assumed] means a guess within the range of the named source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, repeat
from math import ceil
from typing import NamedTuple

from marless.coordinator.platform import LatencyName
from marless.coordinator.pricing.bill import LOG_BYTES, Charge, Meter, read_units, write_units
from marless.coordinator.pricing.prices import StorageClass
from marless.functions.function_specs import COORDINATOR
from marless.functions.messages.order import FAN, SET_BYTES
from marless.functions.messages.usage import Usage


@dataclass(frozen=True)
class Latency:
    """Milliseconds.

    `put`, `get`: a small object from a function. `per_mb`: every further megabyte (2^20 bytes). `ledger`: a request to
    the table. `invoke`: from a synchronous invocation to the start of the warm function, and from its end to the
    answer. `hand_over`: the request of an asynchronous invocation. `event`: from there to the function's start. `away`:
    a round trip between the user's machine and the region. `cold`: the start of an environment before its INIT, not
    billed. `init`: its INIT, on a whole vCPU. `turn`: one turn of the coordinator as a function, without waiting.
    """

    put: float
    get: float
    per_mb: float
    ledger: float
    invoke: float
    event: float
    hand_over: float
    away: float
    cold: float
    init: float
    turn: float

    def storage_ms(self, usage: Usage) -> float:
        """Return the milliseconds that a function waits for storage, with one request after the other."""
        size = usage.bytes_written + usage.bytes_read
        return usage.puts * self.put + usage.gets * self.get + size / 2**20 * self.per_mb

    @property
    def attended_wave_s(self) -> float:
        """Seconds of a wave besides its tasks if a process outside the region waits for them: a commit of the ledger,
        and concurrent calls."""
        return (self.away + self.ledger + self.away + self.invoke) / 1000

    @property
    def detached_wave_s(self) -> float:
        """Seconds of a wave besides its tasks in a detached run. The last task reports and invokes the coordinator. The
        coordinator's turn sends the next events."""
        return (self.ledger + self.hand_over + self.event + self.turn_ms + self.event) / 1000

    @property
    def wait_ms(self) -> float:
        """Waiting time of a turn: it loads manifest, lease and state, reads the sets, reads headers concurrently,
        commits, and sends events concurrently."""
        return 6 * self.ledger + self.get + self.hand_over

    @property
    def turn_ms(self) -> float:
        """Duration of a turn on a whole vCPU."""
        return self.turn + self.wait_ms


# put, get: "tens of milliseconds" below 512 KB [aws: S3 user guide, "Timeouts and retries for latency-sensitive
# applications"], these figures [assumed]. per_mb: 85 MB/s a connection [aws: the same chapter, "Horizontal scaling"].
# ledger: "single-digit milliseconds" [aws: DynamoDB developer guide]. Invoke: 25 ms warm [secondary: Wang et al.,
# "Peeking behind the curtains of serverless platforms", USENIX ATC 2018]. Values of event, hand_over, away, cold:
# [assumed]. Init: 0.55 s to import and 0.2 s to make clients, with files in memory [measured, a core of an AMD EPYC].
# Files elsewhere take longer [assumed]. Turn: 41 ms of processor time with one to three tasks, in the emulated account
# [measured, such a core].
STANDARD = Latency(
    put=30, get=20, per_mb=12, ledger=5, invoke=25, event=60, hand_over=15, away=40, cold=300, init=1000, turn=40
)
# "Single-digit milliseconds" [aws: S3 FAQ, S3 Express One Zone].
EXPRESS = Latency(
    put=6, get=5, per_mb=12, ledger=5, invoke=25, event=60, hand_over=15, away=40, cold=300, init=1000, turn=40
)
# The account emulated on one machine: one server for all services, two cores [measured], and no distances.
EMULATED = Latency(
    put=5, get=5, per_mb=6, ledger=4, invoke=2, event=2, hand_over=2, away=0, cold=30, init=1000, turn=40
)
LATENCIES: dict[LatencyName, dict[StorageClass, Latency]] = {
    "aws": {"standard": STANDARD, "express": EXPRESS},
    "emulated": {"standard": EMULATED, "express": EMULATED},
}


def environments(widths: Sequence[int], concurrency: int) -> int:
    """Return the environments that a function's widest wave needs. Each starts once if waves follow quickly."""
    return min(concurrency, max(widths, default=0))


# Bytes of a completion report, of a run's manifest, and of a finished round's line: a little above measured sizes.
MEMBER_BYTES, MANIFEST_BYTES, LINE_BYTES = 26, 4000, 1000
# Default memory of the coordinator as a function.
COORDINATOR_MB = 1769


class CoordinationCost(NamedTuple):
    """`wave_s`: seconds from a wave's last task to the start of the next wave.

    `deployed`: functions run in the cloud and log there. `turn`: the use of a coordinator's turn on Lambda, None for a
    waiting process (outside the region of deployed functions). `line`: the use of storing a finished round's line."""

    wave_s: float = 0.0
    deployed: bool = False
    turn: Meter | None = None
    line: Meter = Meter()

    @property
    def outside(self) -> bool:
        """True if answers leave the region."""
        return self.deployed and self.turn is None

    @property
    def detached(self) -> bool:
        """True if functions are invoked asynchronously."""
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
    """Return the cost with functions and coordinator in the cloud, for a ledger item of `ledger_bytes`.

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
    """Return the use of completion reports of `tasks` tasks. Each task writes to a set of `FAN`, and every full set
    causes a write to the set above. Reads take the tasks' sets and a header per answer."""
    full, rest = divmod(tasks, FAN)
    meter = Meter(gets=tasks)
    for members, number in ((FAN, full), (rest, bool(rest))):
        sizes = [SET_BYTES + size for size in accumulate(repeat(MEMBER_BYTES, members))]
        meter += Meter(write_units=number * sum(map(write_units, sizes)))
        meter += Meter(read_units=number * read_units(max(sizes, default=0)))
    above = -(-tasks // FAN)
    while above > 1:
        meter += Meter(write_units=above)
        above = -(-above // FAN)
    return meter
