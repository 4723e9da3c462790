"""The cells of an ablation: one arm with one seed, which is an ordinary run in the ablation's folder."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from coordinator.ablation.arms import Arm, Value

BASE = "base.toml"

RunStatus = Literal["new", "begun", "finished"]


@dataclass(frozen=True)
class Cell:
    """An arm with a seed."""

    arm: Arm
    seed: int

    @property
    def run(self) -> str:
        """The name of the run."""
        return f"{self.arm.slug}-s{self.seed}"

    def folder(self, root: Path) -> Path:
        """The run's folder in the ablation's."""
        return root / "runs" / self.run

    def log(self, root: Path) -> Path:
        """The output of the run's command."""
        return root / "logs" / f"{self.run}.txt"


class _Summary(msgspec.Struct, frozen=True):
    """The status in a run's summary.json."""

    status: str


def list_cells(arms: Sequence[Arm], seeds: Iterable[int]) -> list[Cell]:
    """All arms of a seed before the next seed, so that a machine that slows down affects all arms equally."""
    return [Cell(arm, seed) for seed, arm in itertools.product(seeds, arms)]


def run_status(folder: Path) -> RunStatus:
    """The state of a cell's run; a run that was stopped, killed or failed is `begun`."""
    if not (folder / "plan.json").is_file():
        return "new"
    try:
        summary = msgspec.json.decode((folder / "summary.json").read_bytes(), type=_Summary)
    except (OSError, msgspec.MsgspecError):
        return "begun"
    return "finished" if summary.status == "finished" else "begun"


def command(cell: Cell, settings: Mapping[str, Value], status: RunStatus) -> list[str]:
    """The arguments of `marless` that start or resume the run, in the ablation's folder."""
    if status == "begun":
        return ["resume", cell.run, "--workers", "1"]
    overrides = [f"{key}={_toml(value)}" for key, value in settings.items()]
    return ["train", BASE, *overrides, f"seed={cell.seed}", "--run", cell.run, "--workers", "1"]


def failure_reason(log: str, code: int) -> str:
    """Why a run failed, from the output of its command."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    messages = [line.removeprefix("marless: ") for line in lines if line.startswith("marless: ")]
    # The advice to resume the run does not apply here.
    return (messages or lines or [f"exit code {code}"])[-1].partition("; go on with: ")[0]


def _toml(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
