"""Runs the command ``marless train`` and reads its ``metrics.jsonl``."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.launch import environment
from marless.coordinator.core.state import RoundLine
from marless.reports.journal import read

NAME = "benchmark"
_T = TypeVar("_T")
# Records are of MAPPO's default run, which has perceptrons.
MAPPO = "algorithm.name=mappo"
# Keeps evaluation out of the timed rounds.
UNEVALUATED = ("evaluation.every=999999", "evaluation.episodes=2", "evaluation.final_episodes=2")


@dataclass(frozen=True)
class Training:
    """The rounds of a run that had at least two, and its summary."""

    lines: list[RoundLine]
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def env_steps_per_second(self) -> float:
        """The rate without the first round, which starts the workers."""
        first, last = self.lines[0], self.lines[-1]
        return (last.env_steps - first.env_steps) / (last.seconds - first.seconds)

    @property
    def dollars_per_million_steps(self) -> float:
        """The bill of the same rounds."""
        first, last = self.lines[0], self.lines[-1]
        return (last.dollars - first.dollars) / (last.env_steps - first.env_steps) * 1e6

    def seconds_to(self, target: float) -> float | None:
        """Training seconds to the end of the round in which an evaluation reached `target`."""
        return self._first(target, lambda line: line.seconds)

    def round_of(self, target: float) -> int | None:
        """The round in which an evaluation reached `target`."""
        return self._first(target, lambda line: line.round)

    def seconds_after(self, round_: int | None) -> float | None:
        """Training seconds to the end of that round."""
        return next((line.seconds for line in self.lines if line.round == round_), None)

    def dollars_to(self, target: float) -> float | None:
        """The bill at the same moment."""
        return self._first(target, lambda line: line.dollars)

    def _first(self, target: float, of: Callable[[RoundLine], _T]) -> _T | None:
        reached = (of(line) for line in self.lines if line.evaluation and line.evaluation.mean >= target)
        return next(reached, None)


def command(workers: int, *settings: str) -> list[str]:
    """The command line. The run lands in ``runs/benchmark`` below the current folder."""
    marless = str(Path(sys.executable).with_name("marless"))
    return [marless, "train", *settings, "--workers", str(workers), "--run", NAME, "--json"]


def trained(workers: int, *settings: str) -> Training:
    """Runs the command in a temporary folder. Raises `CalledProcessError` if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            command(workers, *settings), check=True, cwd=folder, env=environment(), stdout=subprocess.DEVNULL
        )
        run = Path(folder) / "runs" / NAME
        summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
        return Training(read(run / "metrics.jsonl"), summary)
