"""Recordings that a forecast plays on: of a run in its folder, or of a few rounds that are played for it."""

import dataclasses
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from marless.backends import registry
from marless.coordinator.config import toml_dump
from marless.coordinator.config.loading import convert, load, override
from marless.coordinator.config.schema import RunConfig, Sharing, Stop
from marless.coordinator.config.toml_parsing import parse_toml
from marless.coordinator.core.opponents import takes_identity
from marless.coordinator.core.round_graph import PHASES
from marless.coordinator.core.state import Plan, RoundLine, State
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Ports
from marless.coordinator.errors import UserError
from marless.coordinator.pricing.prices import load_prices
from marless.coordinator.rules.sharing import SHARING_MODES
from marless.estimation.recorded_calls import blocked_ms
from marless.estimation.service_times import ResourceTimes, ServiceTimes, fit, slots_of
from marless.functions.algorithms.registry import algorithm
from marless.reports import attempts, journal
from marless.runs.folder import ATTEMPTS, METRICS, RunFolder
from marless.runs.inputs.stored_inputs import store_inputs
from marless.runs.run_store import RUNS, RunStore
from marless.runs.stored_run import look


class Rounds(NamedTuple):
    """The number of rounds to play: `most`, or fewer once there are `least` and `enough_s` seconds have passed."""

    least: int
    most: int
    enough_s: float


# Enough for the spread of durations and its tail, and for their means.
LONG = Rounds(least=12, most=100, enough_s=10.0)
BRIEF = Rounds(least=3, most=20, enough_s=1.5)


Progress = Callable[[str], None]
"""Shows how far the command is, in one line."""


def unseen(text: str) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Recording:
    """A run to play on: its plan and last state, the lines of its rounds, and the records of its attempts."""

    plan: Plan
    state: State
    lines: Sequence[RoundLine]
    records: Sequence[AttemptRecord]

    @cached_property
    def slots(self) -> int:
        """The number of functions that ran at once."""
        return slots_of(self.records)

    @property
    def service_times(self) -> ServiceTimes:
        """The durations of its tasks, and their calls of its resources."""
        resources = {name: ResourceTimes(resource.slots) for name, resource in self.plan.config.resources.items()}
        return dataclasses.replace(fit(self.records, self.slots), resources=resources)

    def without_waiting(self) -> "Recording":
        """The same run, had every answer of a resource been there at once."""
        records = [
            replace(record, duration_ms=record.duration_ms - blocked_ms(record.actions), actions=())
            for record in self.records
        ]
        return dataclasses.replace(self, records=records)


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


def recording_of(
    run: str, settings: Sequence[str], workers: int, progress: Progress = unseen, store: RunStore = RUNS
) -> Recording:
    """Return the recording of a run in the store, or of rounds that are played for a configuration's file. Raises
    `UserError`."""
    if run.endswith(".toml"):
        return record(load(Path(run), settings), workers, progress=progress, store=store)
    return recorded(store.find(run), settings)


def recorded(folder: RunFolder, settings: Sequence[str] = ()) -> Recording:
    """The recording of a run, with other settings. Raises `UserError` if there is none."""
    records, lines = attempts.read(folder.path / ATTEMPTS), journal.read(folder.path / METRICS)
    if not records or not lines:
        raise UserError(f"{folder.name} has no finished round, or no {ATTEMPTS}: nothing tells how long its tasks take")
    with look(folder) as stored_run:
        plan = dataclasses.replace(stored_run.plan, config=_with(stored_run.plan.config, settings))
        return Recording(plan, stored_run.state, lines, _of_last_width(records))


def _of_last_width(records: Sequence[AttemptRecord]) -> list[AttemptRecord]:
    """The records with the last number of slots: a resumed run may have had other workers before. Kinds that ran only
    before, such as the run's set-up, keep all records."""
    kinds = {record.kind for record in records if record.slots == records[-1].slots}
    return [record for record in records if record.slots == records[-1].slots or record.kind not in kinds]


def record(
    config: RunConfig, workers: int, rounds: Rounds = LONG, progress: Progress = unseen, store: RunStore = RUNS
) -> Recording:
    """Play rounds of `config` with `workers` workers in a temporary folder. The configuration names other runs in the
    `store`.

    Rounds that only sample are played in addition to `rounds`. Raises `UserError` when they fail, and for an unusable
    dataset or opponents.
    """
    lag = config.pipeline.lag
    rounds = rounds._replace(least=rounds.least + lag, most=rounds.most + lag)
    short = replace(config, stop=Stop(rounds=rounds.most))
    records: list[AttemptRecord] = []
    lines = Lines()
    with (
        tempfile.TemporaryDirectory(prefix="marless-") as folder,
        closing(registry.backend(registry.DEFAULT).open(Path(folder), workers)) as backend,
    ):
        backend.prewarm(algorithm(config.algorithm.name).function)
        backend.serve(config.resources)
        inputs = store_inputs(short, "recorded", backend.storage, store)
        plan = Plan("recorded", short, "", load_prices(config.pricing.region), backend.platform, inputs)
        ports = Ports(backend.storage, backend.ledger, backend.invoker, lines, attempts=records.extend)
        driver, since, going = Driver(plan, ports), time.monotonic(), True
        driver.begin()
        while driver.step(going):
            progress(f"measuring rounds on this machine: {len(lines.lines)} of {rounds.least} or more")
            enough = len(lines.lines) >= rounds.least and time.monotonic() - since > rounds.enough_s
            going = not enough and not PHASES[driver.state.phase].ends
    if driver.state.phase == "describe":
        problems = [slot.problem for slot in driver.state.slots.values() if slot.problem]
        raise UserError(problems[0] if problems else driver.state.reason)
    if len(lines.lines) < rounds.least:
        raise UserError(f"the rounds to record failed: {driver.state.reason}")
    return Recording(plan, driver.state, lines.lines, records)


def without_switches(sharing: Sharing) -> Sharing:
    """The first groups, for the whole run: when a rule would switch them is not known beforehand."""
    if not SHARING_MODES[sharing.rule].switches:
        return sharing
    rule = "all" if sharing.start == "together" else "none"
    return replace(sharing, rule=rule, identity=takes_identity(sharing))


def _with(config: RunConfig, settings: Sequence[str]) -> RunConfig:
    if not settings:
        return config
    document = parse_toml(toml_dump.document(config))
    override(document, settings)
    return convert(document, "the recorded run with these settings")
