"""The cells of an ablation: one arm with one seed, which is an ordinary run in the ablation's folder."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.config.loading import load
from marless.ablation.arms import Arm, Value
from marless.studies.study import StudyRun

BASE = "base.toml"


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

    def to_train(self, settings: Mapping[str, Value], base: Path | None, limits: Sequence[str] = ()) -> StudyRun:
        """The run, with these settings in place of those of the file `base`; raises `ConfigError`."""
        overrides = [f"{key}={_toml(value)}" for key, value in settings.items()]
        config = load(base, [*overrides, f"seed={self.seed}"])
        return StudyRun(self.run, self.arm.name, self.seed, "", config, limits=limits)


def list_cells(arms: Sequence[Arm], seeds: Iterable[int]) -> list[Cell]:
    """All arms of a seed before the next seed, so that a machine that slows down affects all arms equally."""
    return [Cell(arm, seed) for seed, arm in itertools.product(seeds, arms)]


def _toml(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)
