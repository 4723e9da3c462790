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
        """What the run's command said."""
        return root / "logs" / f"{self.run}.txt"


class _Ended(msgspec.Struct, frozen=True):
    """What of a run's summary.json says whether it is done."""

    status: str


def in_order(arms: Sequence[Arm], seeds: Iterable[int]) -> list[Cell]:
    """All arms of a seed before the next seed, so that a machine that slows down slows all arms alike."""
    return [Cell(arm, seed) for seed, arm in itertools.product(seeds, arms)]


def standing(folder: Path) -> Standing:
    """How a cell's run stands; one that was stopped, was killed or failed is `begun`."""
    if not (folder / "plan.json").is_file():
        return "new"
    try:
        ended = msgspec.json.decode((folder / "summary.json").read_bytes(), type=_Ended)
    except (OSError, msgspec.MsgspecError):
        return "begun"
    return "finished" if ended.status == "finished" else "begun"


def command(cell: Cell, settings: Mapping[str, Value], standing: Standing) -> list[str]:
    """The arguments of `marless` that begin the run or go on with it, in the ablation's folder."""
    if standing == "begun":
        return ["resume", cell.run, "--workers", "1"]
    overrides = [f"{key}={_toml(value)}" for key, value in settings.items()]
    return ["train", BASE, *overrides, f"seed={cell.seed}", "--run", cell.run, "--workers", "1"]


def reason(log: str, code: int) -> str:
    """Why a run ended badly, from what its command said."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = [line.removeprefix("marless: ") for line in lines if line.startswith("marless: ")]
    # How to go on with the run alone is no help here.
    return (said or lines or [f"exit code {code}"])[-1].partition("; go on with: ")[0]


def _toml(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
