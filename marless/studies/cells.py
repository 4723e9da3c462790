"""Arms and cells: an arm is a name with settings. An arm with a seed is a cell, an ordinary run in a campaign."""

import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from marless.coordinator.config.loading import load
from marless.studies.study_run import StudyRun

Value = str | int | float | bool | tuple[int, ...]
Settings = Mapping[str, Value]
"""Values by the dotted keys of a run's file."""


@dataclass(frozen=True)
class Arm:
    """`about` is a line for tables.

    `rollouts_of`: this arm uses the mean number of rollouts of that arm in every round. `control_of`: the arm that
    differs only in the signal, or ''.
    """

    name: str
    about: str
    settings: Settings = field(hash=False)
    rollouts_of: str = ""
    control_of: str = ""

    @property
    def slug(self) -> str:
        """The name as part of a file's name."""
        return re.sub(r"[^A-Za-z0-9._-]", "-", self.name)


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
        """The run's folder in the campaign's."""
        return root / "runs" / self.run

    def to_train(self, settings: Settings, base: Path | None, limits: Sequence[str] = ()) -> StudyRun:
        """Return the run, with these settings in place of settings of the file `base`. Raises `ConfigError`."""
        overrides = [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in settings.items()
        ]
        config = load(base, [*overrides, f"seed={self.seed}"])
        return StudyRun(self.run, self.arm.name, self.seed, "", config, limits=limits)


def list_cells(arms: Sequence[Arm], seeds: Iterable[int]) -> list[Cell]:
    """All arms of a seed before the next seed, so that a machine that slows down affects all arms equally."""
    return [Cell(arm, seed) for seed, arm in itertools.product(seeds, arms)]
