"""Registered files of lists of arms. Each arm has one hash of all that its runs depend on."""

from pathlib import Path
from typing import Literal

import msgspec

from marless.coordinator.file_reading import read_text
from marless.studies.registration import registration_of
from marless.studies.seeds import seeds_of

FOLDER = Path(__file__).parent


class Bar(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A bound of an arm's values, or of their quotients by the values of the arm `against` in the same seed."""

    arm: str
    of: Literal["seconds", "rate", "best", "win", "dollars", "groups"] = "seconds"
    # Seconds and dollars count until this return is reached.
    target: float | None = None
    against: str = ""
    least: float | None = None
    most: float | None = None
    # The largest mean over all seeds.
    mean: float | None = None


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A form of the single-process baseline: a module of `benchmarks.baseline`, its settings and other options."""

    form: str
    settings: list[str]
    options: list[str] = []


class ListOfArms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arms that are compared. A `settings` entry is ``key=value`` of `marless train`, or the name of a set of them."""

    name: str
    seeds: str
    settings: list[str]
    # No arms: each set of the file is one.
    arms: dict[str, list[str]] = {}
    baselines: dict[str, Baseline] = {}
    # Greedy returns of evaluations during training.
    targets: list[float] = []
    # Arms that run only if the command names them.
    off: list[str] = []
    bars: list[Bar] = []
    # Episodes of the final policies in mpe2's own environment.
    mpe2_episodes: int = 0
    # Teams that final policies play: numbers of agents, or names of tasks.
    teams: list[str] = []


class Arm(msgspec.Struct, frozen=True):
    """An arm with its settings spelled out."""

    study: str
    name: str
    settings: list[str]
    registration: str
    baseline: Baseline | None = None
    targets: list[float] = []
    mpe2_episodes: int = 0
    teams: list[str] = []


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    sets: dict[str, list[str]]
    lists: list[ListOfArms]

    def arms(self, study: ListOfArms, steps: int | None = None) -> list[Arm]:
        """Return the arms of a list, baselines first. `steps` replaces the length of all runs, to try the command."""
        length = [] if steps is None else [f"stop.env_steps={steps}"]
        rows = [
            *((name, form.settings, form) for name, form in study.baselines.items()),
            *((name, names, None) for name, names in (study.arms or {name: [name] for name in self.sets}).items()),
        ]
        return [
            self._arm(study, name, self._spelled(study.settings + names) + length, one) for name, names, one in rows
        ]

    def _arm(self, study: ListOfArms, name: str, settings: list[str], baseline: Baseline | None) -> Arm:
        # Only the own row counts, so a new arm leaves the runs of others valid.
        declared = {"list": study.name, "seeds": seeds_of(study.seeds), "targets": study.targets, "bars": study.bars}
        own = {"arm": name, "settings": settings, "baseline": baseline, "mpe2_episodes": study.mpe2_episodes}
        more = {"teams": study.teams} if study.teams else {}
        registration = registration_of(declared | own | more)
        return Arm(study.name, name, settings, registration, baseline, study.targets, study.mpe2_episodes, study.teams)

    def _spelled(self, names: list[str]) -> list[str]:
        return [text for name in names for text in ([name] if "=" in name else self.sets[name])]


def load(name: str = "entities") -> File:
    """Return a file by its name. Raise `UnreadableFile`, `msgspec.ValidationError`, and `KeyError` for unknown sets."""
    return msgspec.toml.decode(read_text(FOLDER / f"{name}.toml"), type=File)
