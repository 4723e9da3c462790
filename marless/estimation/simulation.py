"""Simulations of a recorded run: the real driver, planner and bill on a virtual clock, with other numbers of rollouts.

The number of rollouts and the team stay as they are set: what a controller would decide from other data is unknown.
"""

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from coordinator.config.schema import RANDOM, League, RunConfig, Stop
from coordinator.core.attempt_record import AttemptRecord
from coordinator.core.state import NO_INPUTS, Plan, RoundLine, State
from coordinator.drive.driver import Driver, Ports
from coordinator.errors import UserError
from coordinator.pricing.bill import INIT_LIMIT_MS
from coordinator.pricing.latency import STORAGE
from coordinator.rules.sharing import SHARING_MODES
from functions.contract import Platform
from marless.estimation.calibration import work_of
from marless.estimation.recorded_replies import RecordedReplies
from marless.estimation.rehearsal import NoObjects
from marless.estimation.service_times import ServiceTimes, busy_s, by_dispatch, fit, slots_of
from marless.estimation.virtual_functions import NO_FAULTS, Faults, VirtualClock, VirtualFunctions, VirtualLedger

# Rounds of the simulation that measures what this coordinator computes between two waves of the recorded size.
_CALIBRATED = 8


@dataclass(frozen=True)
class Recording:
    """A run to simulate: its plan and last state, the lines of its rounds, and the records of its attempts."""

    plan: Plan
    state: State
    lines: Sequence[RoundLine]
    records: Sequence[AttemptRecord]

    @cached_property
    def slots(self) -> int:
        """How many functions ran at once."""
        return slots_of(self.records)


@dataclass(frozen=True)
class Setting:
    """What a simulation changes: `slots` and `deployed` by default as recorded."""

    rollouts: int
    rounds: int
    slots: int
    deployed: bool = False
    faults: Faults = NO_FAULTS
    seed: int = 0


@dataclass(frozen=True)
class Simulated:
    """A simulated run: its lines and records, and by round the means of seconds that passed, slot seconds by kind, and
    seconds of this machine's processor that the coordinator took."""

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

    @property
    def round_s(self) -> list[float]:
        """Seconds of each round after the first, which starts functions."""
        return [after.seconds - before.seconds for before, after in pairwise(self.lines)]

    @property
    def dollars(self) -> float:
        """Dollars of a round."""
        first, last = self.lines[0], self.lines[-1]
        return (last.dollars - first.dollars) / (last.round - first.round)

    @property
    def critical_path_s(self) -> float:
        """Seconds of a round on slots without end: of each wave the longest task."""
        rounds = {record.round for record in self.records}
        longest = (max(busy_s(record) for record in wave) for wave in by_dispatch(self.records))
        return sum(longest) / len(rounds)


def simulate(recording: Recording, setting: Setting) -> Simulated:
    """A simulated run; raises `UserError` where the record does not suffice."""
    times = fit(recording.records, recording.slots)
    if setting.deployed:
        sizes = recording.plan.config.functions
        memory_mb = {name: getattr(sizes, name).memory_mb for name in ("actor", "learner", "evaluator")}
        latency = STORAGE[recording.plan.config.pricing.storage]
        times = times.deployed(latency, memory_mb, recording.plan.prices.lambda_.mb_per_vcpu)
        return drive(recording, times, setting, VirtualLedger(VirtualClock(), times.between_s))
    # The coordinator of a simulation computes, too; the record has its time already.
    same = Setting(recording.lines[-1].rollouts, _CALIBRATED, recording.slots)
    seen = fit(drive(recording, times, same, VirtualLedger(VirtualClock())).records, same.slots)
    hand_over_s = max(0.0, times.hand_over_s - (seen.hand_over_s - times.hand_over_s))
    commit_s = max(0.0, times.between_s - seen.between_s)
    times = dataclasses.replace(times, hand_over_s=hand_over_s)
    return drive(recording, times, setting, VirtualLedger(VirtualClock(), commit_s))


def drive(recording: Recording, times: ServiceTimes, setting: Setting, ledger: VirtualLedger) -> Simulated:
    """A simulated run with these service times and this ledger, whose clock it starts."""
    clock, journal = ledger.clock, Lines()
    records: list[AttemptRecord] = []
    replies = RecordedReplies(recording.state, recording.lines)
    rng = np.random.default_rng(setting.seed)
    functions = VirtualFunctions(clock, setting.slots, times, replies, setting.faults, rng)
    ports = Ports(NoObjects(), ledger, functions, journal, attempts=records.extend)
    driver = Driver(_plan(recording.plan, setting), ports, lambda: clock.now)
    functions.serve(lambda id: driver.state.slots[work_of(id)].item)
    clock.leave()
    driver.begin()
    # Reading the driver's state at each step would apply every report alone.
    while len(journal.lines) < setting.rounds and driver.step():
        pass
    state, rounds = driver.state, len(journal.lines)
    if rounds < 2:
        raise UserError(f"the simulated run ended after {rounds} rounds: {state.reason or 'too few rounds'}")
    return Simulated(
        lines=journal.lines,
        records=records,
        state=state,
        busy_s={name: seconds / rounds for name, seconds in functions.busy_s.items()},
        coordinator_s=clock.coordinator_s / rounds,
        utilisation=sum(busy_s(record) for record in records) / setting.slots / clock.now,
        requests=functions.asked,
        request_bytes=functions.request_bytes,
        reply_bytes=functions.reply_bytes,
        largest_request=functions.largest_request,
        largest_item=ledger.largest,
    )


def _plan(plan: Plan, setting: Setting) -> Plan:
    """The recorded plan with the setting's rollouts, rounds and platform."""
    platform = replace(plan.platform, concurrency=setting.slots, coordinator_mb=0)
    if setting.deployed:
        platform = Platform(concurrency=setting.slots, init_limit_ms=INIT_LIMIT_MS, fixed_sizes=True, cpu_scaling=False)
    config = _config(plan.config, setting)
    return dataclasses.replace(plan, config=config, platform=platform, inputs=NO_INPUTS)


def _config(config: RunConfig, setting: Setting) -> RunConfig:
    sharing, opponents = config.sharing, config.opponents
    if SHARING_MODES[sharing.rule].switches:
        sharing = replace(sharing, rule="all" if sharing.start == "together" else "none")
    return replace(
        config,
        stop=Stop(rounds=setting.rounds),
        scaling=replace(config.scaling, rule="constant", rollouts=setting.rollouts, min_rollouts=None),
        sharing=sharing,
        opponents=replace(opponents, policies=RANDOM),
        league=League(),
    )


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Lowest, median and highest."""
    return min(values), statistics.median(values), max(values)


class Lines:
    """A journal in memory."""

    def __init__(self) -> None:
        self.lines: list[RoundLine] = []

    def record(self, line: RoundLine) -> None:
        """Keeps the line once."""
        if not self.lines or line.round > self.lines[-1].round:
            self.lines.append(line)

    def persist(self) -> None:
        """Nothing is kept."""
