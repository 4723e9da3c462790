"""The registered file, its pairs of task and deadline, and their records."""

from pathlib import Path
from typing import Any

import msgspec

from benchmarks.records import json_lines
from marless.coordinator.file_reading import read_text
from marless.functions.randomness import generator
from marless.studies.registration import registration_of

FILE = Path(__file__).parent / "plan.toml"


class Emulated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Plans of these tasks are trained in the emulated account. Its requests wait up to `latency_s` seconds."""

    tasks: list[str]
    latency_s: float


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See `plan.toml`."""

    seed: int
    deadlines: int
    slack: float
    sigma: tuple[float, float]
    alpha: tuple[float, float]
    workers: int
    settings: list[str]
    emulated: Emulated
    tasks: dict[str, list[str]]
    constants: dict[str, list[str]]

    @property
    def registration(self) -> str:
        """The hash of all that the runs depend on."""
        return registration_of(msgspec.to_builtins(self))


class Draw(msgspec.Struct, frozen=True):
    """The drawn account of a pair, and the place of its deadline between the fastest and the cheapest placement."""

    sigma: float
    alpha: float
    place: float
    seed: int


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The registration, the planner's program and the machine of a record. `load` is before and after it."""

    registration: str
    program: str
    commit: str | None
    processor: str
    cores: int
    load: tuple[float, float]
    date: str


class Pair(msgspec.Struct, frozen=True, kw_only=True, tag="pair"):
    """A task, a deadline and an account. `runs` are seconds and dollars of each placement there. A failed run has none.

    `chosen` is the plan's placement, or '' if it refused. `promised` are its seconds and dollars with 95 % confidence.
    """

    task: str
    number: int
    sigma: float
    alpha: float
    deadline_s: float
    chosen: str
    promised: tuple[float, float] | None
    settings: dict[str, Any]
    runs: dict[str, tuple[float, float] | None]
    constants: list[str]
    origin: Origin


class Trained(msgspec.Struct, frozen=True, kw_only=True, tag="trained"):
    """A plan that was trained, here or in the emulated account, and the hash of its weights."""

    task: str
    placement: str
    backend: str
    rounds: int
    seconds: float
    dollars: float
    weights_sha256: str
    origin: Origin


Record = Pair | Trained


def load() -> File:
    """Return the file. Raise `UnreadableFile` and `msgspec.ValidationError`."""
    return msgspec.toml.decode(read_text(FILE), type=File)


def read(path: Path) -> list[Record]:
    """Return the records of a file, or none if it is missing. Raise `UnreadableFile`."""
    of: Any = Record
    return json_lines.read(path, of)


def draw(file: File, seed: int, task: str, number: int) -> Draw:
    """Return the account and the place of the deadline of a pair."""
    rng = generator(seed, "plan", task, number)
    sigma, alpha = (float(rng.uniform(*bounds)) for bounds in (file.sigma, file.alpha))
    return Draw(sigma, alpha, float(rng.random()), int(rng.integers(2**31)))
