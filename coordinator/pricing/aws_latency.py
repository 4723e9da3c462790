"""Latencies of AWS besides the work of tasks: medians per request, each with its source or marked as an assumption.

Estimates before a run need them; measurements of the run then replace them. Tails, throttling and retries are left
out. Marks: [aws] published by AWS, [secondary] measured by others, [measured] measured for this project on the named
machine, [assumed] a guess within the range of the named source.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from marless.coordinator.platform import LatencyName
from marless.coordinator.pricing.prices import StorageClass
from marless.functions.messages.usage import Usage


@dataclass(frozen=True)
class Latency:
    """Milliseconds.

    `put`, `get`: a small object from a function. `per_mb`: every further megabyte (2^20 bytes). `ledger`: a request to
    the table. `invoke`: from a synchronous invocation to the start of the warm function, and from its end to the
    answer. `hand_over`: the request of an asynchronous invocation; `event`: from there to the function's start. `away`:
    a round trip between the user's machine and the region. `cold`: the start of an environment before its INIT, not
    billed; `init`: its INIT, on a whole vCPU. `turn`: one turn of the coordinator as a function, without waiting.
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
        """How long a function waits for storage, with one request after the other."""
        size = usage.bytes_written + usage.bytes_read
        return usage.puts * self.put + usage.gets * self.get + size / 2**20 * self.per_mb

    @property
    def attended_wave_s(self) -> float:
        """Seconds of a wave besides its tasks if a process outside the region waits for them: a commit of the ledger,
        and concurrent calls."""
        return (self.away + self.ledger + self.away + self.invoke) / 1000

    @property
    def detached_wave_s(self) -> float:
        """Seconds of a wave besides its tasks in a detached run: the last task reports and invokes the coordinator,
        whose turn sends the next events."""
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
# ledger: "single-digit milliseconds" [aws: DynamoDB developer guide]. invoke: 25 ms warm [secondary: Wang et al.,
# "Peeking behind the curtains of serverless platforms", USENIX ATC 2018]. event, hand_over, away, cold [assumed].
# init: 0.55 s to import and 0.2 s to make clients, with files in memory [measured, a core of an AMD EPYC]; more from
# files that are not [assumed]. turn: 41 ms of processor time with one to three tasks, in the emulated account
# [measured, such a core].
STANDARD = Latency(
    put=30, get=20, per_mb=12, ledger=5, invoke=25, event=60, hand_over=15, away=40, cold=300, init=1000, turn=40
)
# "Single-digit milliseconds" [aws: S3 FAQ, S3 Express One Zone].
EXPRESS = Latency(
    put=6, get=5, per_mb=12, ledger=5, invoke=25, event=60, hand_over=15, away=40, cold=300, init=1000, turn=40
)
# The account emulated on one machine: one server for all services, two cores [measured]; no distances.
EMULATED = Latency(
    put=5, get=5, per_mb=6, ledger=4, invoke=2, event=2, hand_over=2, away=0, cold=30, init=1000, turn=40
)
LATENCIES: dict[LatencyName, dict[StorageClass, Latency]] = {
    "aws": {"standard": STANDARD, "express": EXPRESS},
    "emulated": {"standard": EMULATED, "express": EMULATED},
}


def environments(widths: Sequence[int], concurrency: int) -> int:
    """Execution environments that a function's widest wave needs; each starts once if waves follow quickly."""
    return min(concurrency, max(widths, default=0))
