"""The result of a cell, one line in the file of its protocol."""

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from benchmarks.conformance.cases import Case
from benchmarks.records import json_lines
from marless.comparison import finished_run
from marless.comparison.finished_run import CostPoint
from marless.coordinator.file_reading import UnreadableFile
from marless.functions.algorithms import registry as algorithms
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.reports.statistics import FinalReturn, Interval
from marless.studies.cells import Cell, Value

Key = tuple[str, int]


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Metrics of the policies after `env_steps` in addition to their return, see `measures`."""

    env_steps: int
    figures: dict[str, float]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A finished or failed cell. Returns are greedy, undiscounted and summed over agents.

    `commit` and `code_sha256` identify the program. `hyperparameters` are the algorithm's resolved settings on this
    task with `actors.num_envs`, and `settings` the case's settings. `seconds` and `dollars` are of training. `curve`
    ends with the final policies. `absolute` is of the policies after `absolute_round` rounds, the best of the curve, or
    the final ones if several sides learned. A failed cell has `reason` and no results.
    """

    protocol: str
    task: str
    algorithm: str
    treatment: str
    seed: int
    status: Literal["finished", "failed"]
    reason: str = ""
    settings: dict[str, Value]
    hyperparameters: dict[str, Any] = {}
    commit: str | None = None
    code_sha256: str = ""
    machine: dict[str, Any] = {}
    env_steps: int = 0
    seconds: float = 0.0
    dollars: float = 0.0
    curve: tuple[CostPoint, ...] = ()
    final: float | None = None
    absolute: FinalReturn | None = None
    absolute_round: int | None = None
    measured: tuple[Measured, ...] = ()

    @property
    def key(self) -> Key:
        """The name of the case's arm, and the seed."""
        return f"{self.task}-{self.algorithm}-{self.treatment}", self.seed


class _Absolute(msgspec.Struct, frozen=True):
    mean: float
    iqm: float
    ci95: Interval | None
    episodes: int
    round: int


class _Summary(msgspec.Struct, frozen=True):
    """The part of a run's summary.json that is kept."""

    commit: str | None
    machine: dict[str, Any]
    absolute_return: _Absolute


def path(folder: Path, protocol: str) -> Path:
    """Return the protocol's file in the folder of results."""
    return folder / "conformance" / f"{protocol}.jsonl"


def read(file: Path) -> dict[Key, Record]:
    """Return the records in the file by their keys. Raise `UnreadableFile`."""
    return {made.key: made for made in json_lines.read(file, Record)}


def put(file: Path, *records: Record) -> None:
    """Write the records durably in the place of records with their keys. Raise `OSError` and `UnreadableFile`."""
    found = read(file) | {made.key: made for made in records}
    json_lines.write(file, [found[key] for key in sorted(found)])


def finished(protocol: str, case: Case, cell: Cell, folder: Path, measured: tuple[Measured, ...]) -> Record:
    """Return the record of a cell with a finished run in `folder`. Raise `UnreadableFile`."""
    found = finished_run.read(folder, cell.arm.name, cell.seed)
    try:
        summary = msgspec.json.decode((folder / "summary.json").read_bytes(), type=_Summary)
        hyperparameters = _hyperparameters(tomllib.loads((folder / "config.toml").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError) as error:
        raise UnreadableFile(f"{folder} does not hold what a finished run leaves: {error}") from error
    absolute = msgspec.structs.asdict(summary.absolute_return)
    round_ = absolute.pop("round")
    return Record(
        **_identity(protocol, case, cell),
        status="finished",
        hyperparameters=hyperparameters,
        commit=summary.commit,
        code_sha256=found.code,
        machine=summary.machine,
        env_steps=found.env_steps,
        seconds=found.seconds,
        dollars=found.dollars,
        curve=found.curve,
        final=found.final_return,
        absolute=FinalReturn(**absolute),
        absolute_round=round_,
        measured=measured,
    )


def _hyperparameters(config: dict[str, Any]) -> dict[str, Any]:
    """The hyperparameters of a run's configuration, resolved for its task. Raises `KeyError` if there are none."""
    task, settings = msgspec.convert(config["task"], EnvTask), dict(config["algorithm"])
    algorithm = algorithms.algorithm(settings.pop("name"))
    resolved = algorithms.configuration(algorithm, settings).resolved(registry.spec(task))
    return {**msgspec.to_builtins(resolved), "actors.num_envs": config["actors"]["num_envs"]}


def failed(protocol: str, case: Case, cell: Cell, reason: str) -> Record:
    """The record of a failed cell."""
    return Record(**_identity(protocol, case, cell), status="failed", reason=reason)


def _identity(protocol: str, case: Case, cell: Cell) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "task": case.task,
        "algorithm": case.algorithm,
        "treatment": case.treatment,
        "seed": cell.seed,
        "settings": dict(case.settings),
    }
