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

Standing = Literal["new", "begun", "finished"]


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


class _Ended(msgspec.Struct, frozen=True):
    """The status in a run's summary.json."""

    status: str


def in_order(arms: Sequence[Arm], seeds: Iterable[int]) -> list[Cell]:
    """All arms of a seed before the next seed, so that a machine that slows down affects all arms equally."""
    return [Cell(arm, seed) for seed, arm in itertools.product(seeds, arms)]


def standing(folder: Path) -> Standing:
    """The state of a cell's run; a run that was stopped, killed or failed is `begun`."""
    if not (folder / "plan.json").is_file():
        return "new"
    try:
        ended = msgspec.json.decode((folder / "summary.json").read_bytes(), type=_Ended)
    except (OSError, msgspec.MsgspecError):
        return "begun"
    return "finished" if ended.status == "finished" else "begun"


def command(cell: Cell, settings: Mapping[str, Value], standing: Standing) -> list[str]:
    """The arguments of `marless` that start or resume the run, in the ablation's folder."""
    if standing == "begun":
        return ["resume", cell.run, "--workers", "1"]
    overrides = [f"{key}={_toml(value)}" for key, value in settings.items()]
    return ["train", BASE, *overrides, f"seed={cell.seed}", "--run", cell.run, "--workers", "1"]


def reason(log: str, code: int) -> str:
    """Why a run failed, from the output of its command."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = [line.removeprefix("marless: ") for line in lines if line.startswith("marless: ")]
    # The advice to resume the run by itself does not apply here.
    return (said or lines or [f"exit code {code}"])[-1].partition("; go on with: ")[0]


def _toml(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
