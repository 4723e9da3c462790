"""A forecast: the real driver, or turns of the detached coordinator, on virtual functions that replay a recording."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np
from msgspec.structs import replace

from marless.coordinator.core.state import Plan, RoundLine, State
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.coordinator.drive.completion_reports import Detached
from marless.coordinator.drive.detached_turn import CloudPorts, take_turn
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Ports
from marless.coordinator.placement.coordination_cost import COORDINATOR_MB, MANIFEST_BYTES, Latency
from marless.estimation.asking_functions import AskingFunctions
from marless.estimation.detached_functions import DetachedFunctions
from marless.estimation.recorded_replies import RecordedReplies
from marless.estimation.recording import Lines, Recording
from marless.estimation.service_times import ServiceTimes, busy_s, longest_path_s
from marless.estimation.virtual_functions import (
    NO_FAULTS,
    Faults,
    NoObjects,
    VirtualClock,
    VirtualFunctions,
    VirtualLedger,
)
from marless.reports.text import counted, money

_COORDINATOR = "coordinator"


@dataclass(frozen=True, repr=False)
class Simulated:
    """A simulated run: its lines, records and last state, and its totals.

    Means of a round are `busy_s`, seconds of slots by kind (learners without rounds that only sample), and
    `coordinator_s`, seconds of this machine's processor. `utilisation` is the busy share of slots."""

    lines: Sequence[RoundLine]
    records: Sequence[AttemptRecord]
    state: State
    busy_s: dict[str, float]
    coordinator_s: float
    utilisation: float
    requests: int
    request_bytes: int
    reply_bytes: int
    largest_request: int
    largest_item: int

    def __repr__(self) -> str:
        rounds, round_s = counted(len(self.lines), "round"), median(self.round_s)
        return f"<Simulated: {rounds}, {round_s:.3g} s and {money(self.dollars)} a round>"

    @property
    def learning_lines(self) -> list[RoundLine]:
        """The lines of the rounds that learn."""
        return _learning_lines(self.lines)

    @property
    def round_s(self) -> list[float]:
        """Seconds of each round that learns after the first, which starts functions."""
        return [after.seconds - before.seconds for before, after in pairwise(self.learning_lines)]

    @property
    def dollars(self) -> float:
        """Dollars of such a round."""
        first, *_, last = self.learning_lines
        return (last.dollars - first.dollars) / (last.round - first.round)

    @property
    def critical_path_s(self) -> float:
        """Seconds of a round on unlimited slots: of each wave the longest task, or a longer evaluation next to all of
        them."""
        by_round, first = defaultdict[int, list[AttemptRecord]](list), self.learning_lines[0].round - 1
        for record in self.records:
            if record.round >= first:
                by_round[record.round].append(record)
        return sum(map(longest_path_s, by_round.values())) / len(by_round)


def forecast(
    plan: Plan,
    recording: Recording,
    times: ServiceTimes,
    ledger: VirtualLedger,
    rounds: int | None = None,
    faults: Faults = NO_FAULTS,
    seed: int = 0,
) -> Simulated:
    """Drives `plan` to its end, or for so many rounds, on the clock of the `ledger`."""
    clock, journal = ledger.clock, Lines()
    records: list[AttemptRecord] = []
    functions = _functions(plan, recording, times, clock, faults, seed)
    driver = Driver(plan, Ports(NoObjects(), ledger, functions, journal, attempts=records.extend), lambda: clock.now)
    clock.leave()
    driver.begin()
    # Reading the driver's state at each step would apply every report alone.
    while (rounds is None or len(journal.lines) < rounds) and driver.step():
        pass
    rounds_played, seconds = max(1, len(journal.lines)), max(clock.now, 1e-9)
    rounds_learned = max(1, len(_learning_lines(journal.lines)))
    return Simulated(
        lines=journal.lines,
        records=records,
        state=driver.state,
        busy_s={
            kind: busy / (rounds_learned if kind.startswith("learn") else rounds_played)
            for kind, busy in functions.busy_s.items()
        },
        coordinator_s=clock.coordinator_s / rounds_played,
        utilisation=sum(map(busy_s, records)) / plan.platform.concurrency / seconds,
        requests=functions.asked,
        request_bytes=functions.request_bytes,
        reply_bytes=functions.reply_bytes,
        largest_request=functions.largest_request,
        largest_item=ledger.largest,
    )


def _learning_lines(lines: Sequence[RoundLine]) -> list[RoundLine]:
    return [line for line in lines if line.staleness is not None]


def forecast_detached(plan: Plan, recording: Recording, times: ServiceTimes, latency: Latency, seed: int = 0) -> State:
    """The last state of `plan` with the coordinator as a function. `latency` gives the duration of its turns.

    Raises `UserError` for a task that runs into its time-out.
    """
    ledger = VirtualLedger(VirtualClock(counts_coordinator=False))
    clock = ledger.clock
    functions = _functions(plan, recording, times, clock, NO_FAULTS, seed)
    events = DetachedFunctions(functions, ledger, clock, times.between_s)
    ports = Ports(NoObjects(), ledger, events, Lines())
    cloud = CloudPorts(events.sets, events.heads, events, ledger.now)
    plan = dataclasses.replace(plan, platform=replace(plan.platform, coordinator_mb=COORDINATOR_MB))
    start_ms = latency.init
    while True:
        detached_turn = Detached(_COORDINATOR, _once(latency.turn_ms, start_ms), (MANIFEST_BYTES, 0))
        after = take_turn(plan, ports, cloud, detached_turn, True, resume=None).after
        start_ms = 0.0
        if after.status != "running":
            return after


def _functions(
    plan: Plan, recording: Recording, times: ServiceTimes, clock: VirtualClock, faults: Faults, seed: int
) -> VirtualFunctions:
    replies = RecordedReplies(recording.state, recording.lines)
    arguments = clock, plan.platform.concurrency, times, replies, faults, np.random.default_rng(seed)
    if times.resources:
        return AskingFunctions(*arguments, resources=times.resources)
    return VirtualFunctions(*arguments)


def _once(work_ms: float, start_ms: float) -> Callable[[], tuple[float, float]]:
    """Computation and start-up of a turn, returned once, as `Detached.unbilled_ms` expects."""
    parts = [(work_ms, start_ms)]
    return lambda: parts.pop() if parts else (0.0, 0.0)
