"""A case: a task, an algorithm and their settings. With a seed it is a cell, which is an ordinary run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Literal

from marless import extras
from marless.functions.algorithms.registry import ALGORITHMS
from marless.reports.statistics import Interval
from marless.studies.cells import Arm, Cell, Settings

Measure = Literal["", "sides", "win"]
"""What is measured of the policies beside their return: each side against frozen opponents, or the share of wins."""

Criterion = Literal["each", "best"]
"""What a bar is for: each algorithm, or the algorithm with the best mean on the task."""

# The treatment of the run that sides are measured against: one seed that no other case uses.
REFERENCE, REFERENCE_SEED = "reference", 100
# Optional packages of tasks by the prefix of their names, with the extra that installs them.
_PACKAGES = {
    "smac/": ("smac", "smac"),
    "smacv2/": ("smacv2", "smac"),
}


@dataclass(frozen=True)
class Case:
    """`task` is the name in tables, such as ``simple_spread_3``. `treatment` names the settings.

    At each of `points` (environment steps, ascending) training pauses to `measure`. It ends at the last. `bar` is the
    least absolute return of each seed under `criterion`. None for cases that are only reported. `bounds` are of the
    task's returns, or None.
    """

    task: str
    algorithm: str
    treatment: str
    seeds: tuple[int, ...]
    settings: Settings = field(hash=False)
    measure: Measure = ""
    points: tuple[int, ...] = ()
    bar: float | None = None
    criterion: Criterion = "each"
    bounds: Interval | None = None
    # Environments that are stepped together where wins are measured. Each of StarCraft's is a process of the game.
    num_envs: int = 160

    @property
    def arm(self) -> Arm:
        """The case as an arm of an ablation."""
        return Arm(f"{self.task}-{self.algorithm}-{self.treatment}", self.task, self.settings)

    @property
    def cells(self) -> list[Cell]:
        """One for every seed."""
        return [Cell(self.arm, seed) for seed in self.seeds]


Block = Sequence[Case]
"""Cases that run before those of the next block; in it all cases of a seed go before the next seed."""


@dataclass(frozen=True)
class Protocol:
    """The cases to train, in order. `name` is the folders' name."""

    name: str
    blocks: tuple[Block, ...]

    @property
    def cases(self) -> list[Case]:
        """All of them, in order."""
        return [case for block in self.blocks for case in block]

    def cells(self, among: Callable[[Case], bool]) -> Iterator[tuple[Case, Cell]]:
        """Yield the cells of the cases `among`, in the order of their runs."""
        for block in self.blocks:
            chosen = [case for case in block if among(case)]
            for seed in sorted({seed for case in chosen for seed in case.seeds}):
                yield from ((case, Cell(case.arm, seed)) for case in chosen if seed in case.seeds)


def missing(case: Case) -> str:
    """The case's missing requirement, with the command that installs it. '' if the case can run."""
    if case.algorithm not in ALGORITHMS:
        return f"this version has no algorithm {case.algorithm}"
    for start, (package, extra) in _PACKAGES.items():
        if str(case.settings["task.name"]).startswith(start) and find_spec(package) is None:
            return f"{package} is not installed: {extras.install(extra)}"
    return ""


def named(cases: Iterable[Case]) -> Mapping[str, Case]:
    """The cases by the names of their arms."""
    return {case.arm.name: case for case in cases}
