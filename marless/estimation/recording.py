"""Recordings to simulate: of a run in its folder, or of a few rounds that are played for it."""

import dataclasses
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from coordinator.config import dump
from coordinator.config.loading import convert, override
from coordinator.config.schema import RunConfig, Stop
from coordinator.config.toml_files import parse_toml
from coordinator.core.attempt_record import AttemptRecord
from coordinator.core.round_graph import PHASES
from coordinator.core.state import Plan
from coordinator.drive.driver import Driver, Ports
from coordinator.errors import UserError
from coordinator.pricing.prices import load_prices
from marless.backends import registry
from marless.estimation.simulation import Lines, Recording
from marless.reports import attempts, journal
from marless.runs.folder import ATTEMPTS, METRICS, RunFolder
from marless.runs.stored import look

# Rounds that are played for a configuration, and seconds after which fewer are enough.
ROUNDS, LEAST_ROUNDS, ENOUGH_S = 100, 12, 10.0


def recorded(folder: RunFolder, settings: Sequence[str] = ()) -> Recording:
    """The recording of a run, with other settings; raises `UserError` where there is none."""
    records, lines = attempts.read(folder.path / ATTEMPTS), journal.read(folder.path / METRICS)
    if not records or not lines:
        raise UserError(f"{folder.name} has no finished round, or no {ATTEMPTS}: nothing tells how long its tasks take")
    with look(folder) as stored:
        plan = dataclasses.replace(stored.plan, config=_with(stored.plan.config, settings))
        # A resumed run may have had other workers before.
        alike = [record for record in records if record.slots == records[-1].slots]
        return Recording(plan, stored.state, lines, alike)


def _with(config: RunConfig, settings: Sequence[str]) -> RunConfig:
    if not settings:
        return config
    document = parse_toml(dump.document(config))
    for text in settings:
        override(document, text)
    return convert(document, "the recorded run with these settings")


def record(config: RunConfig, workers: int) -> Recording:
    """Plays rounds of `config` with `workers` workers in a temporary folder; raises `UserError` when they fail."""
    short = replace(config, stop=Stop(rounds=ROUNDS))
    records: list[AttemptRecord] = []
    lines = Lines()
    with (
        tempfile.TemporaryDirectory(prefix="marless-") as folder,
        closing(registry.backend(registry.DEFAULT).open(Path(folder), workers)) as backend,
    ):
        backend.prewarm()
        plan = Plan("simulated", short, "", load_prices(config.pricing.region), backend.platform)
        ports = Ports(backend.storage, backend.ledger, backend.invoker, lines, attempts=records.extend)
        driver, since = Driver(plan, ports), time.monotonic()
        driver.begin()
        while not PHASES[driver.state.phase].ends and driver.step():
            if len(lines.lines) >= LEAST_ROUNDS and time.monotonic() - since > ENOUGH_S:
                break
    if len(lines.lines) < LEAST_ROUNDS:
        raise UserError(f"the rounds to record failed: {driver.state.reason}")
    return Recording(plan, driver.state, lines.lines, records)
