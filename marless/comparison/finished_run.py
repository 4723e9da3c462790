"""Read the metrics of a finished run for a comparison by pairs: its metrics.jsonl and summary.json."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from marless.coordinator.core.state import RoundLine
from marless.coordinator.file_reading import UnreadableFile, read_json
from marless.functions.function_specs import NAMES, by_function
from marless.reports.journal import read as read_lines
from marless.runs import summary
from marless.runs.folder import IDENTITY, METRICS, SUMMARY, RunFolder


class CostPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Mean greedy return of an evaluation, with steps, seconds and dollars since the start of the run."""

    env_steps: int
    seconds: float
    dollars: float
    mean: float


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round for pictures: rollouts, learner invocations, the group of every agent, and the sharing event."""

    rollouts: int
    learners: int
    team: tuple[int, ...]
    event: str


class _Start(msgspec.Struct, frozen=True, kw_only=True):
    arm: str
    seed: int
    rounds: int
    env_steps: int
    seconds: float
    dollars: float


# The compute of every function.
if TYPE_CHECKING:
    _Compute = _Start
else:
    _Compute = by_function(_Start, float, 0.0)


class FinishedRun(_Compute, frozen=True, kw_only=True):
    """Results of a finished run.

    `dollars` and `seconds` are of training, to the end of the last round. The compute of each function, by its name,
    `requests` (of functions) and `storage` are the bill of the whole run, including the final evaluation. `rollouts`
    and `learners` (invocations) are means per round, and `sharing` is the share of rounds with a shared network.
    `flips` counts switches of sharing, `rejected` trials that rejected it. `final_return` is greedy, of the final
    policies. `curve` ends with it. `plays` are returns against other teams by name, see `reports.crossplay`.
    `registration` is the hash of the suite's file.
    """

    requests: float
    storage: float
    rollouts: float
    learners: float
    sharing: float
    flips: int
    rejected: int
    final_return: float
    code: str
    curve: tuple[CostPoint, ...]
    history: tuple[Round, ...]
    plays: dict[str, float] = msgspec.field(default_factory=dict)
    registration: str = ""

    @property
    def functions(self) -> float:
        """The bill without storage: compute and requests of functions."""
        compute: float = sum(getattr(self, name) for name in NAMES)
        return compute + self.requests


class _Program(msgspec.Struct, frozen=True):
    code_sha256: str


def read(folder: Path, arm: str, seed: int) -> FinishedRun:
    """The finished run in `folder`. Raises `UnreadableFile` if its files are not a finished run's."""
    results = summary.read(RunFolder(folder))
    if results is None or results.final_return is None:
        raise UnreadableFile(f"{folder / SUMMARY} has no final return")
    lines = [line for line in read_lines(folder / METRICS) if line.round <= results.rounds]
    if not lines or lines[-1].round != results.rounds:
        raise UnreadableFile(f"{folder / METRICS} does not have all {results.rounds} rounds")
    events = [line.event for line in lines]
    return FinishedRun(
        arm=arm,
        seed=seed,
        rounds=results.rounds,
        env_steps=results.env_steps,
        seconds=lines[-1].seconds,
        dollars=lines[-1].dollars,
        **{part: getattr(results.dollars, part) for part in (*NAMES, "requests", "storage")},
        rollouts=float(np.mean([line.rollouts for line in lines])),
        learners=float(np.mean([line.learners for line in lines])),
        sharing=float(np.mean([len(set(line.team)) < len(line.team) for line in lines])),
        flips=events.count("shared") + events.count("split"),
        rejected=events.count("rejected"),
        final_return=results.final_return.mean,
        code=read_json(folder / IDENTITY, _Program).code_sha256,
        registration=results.registration,
        curve=_curve(lines, results.final_return.mean),
        history=tuple(
            Round(rollouts=line.rollouts, learners=line.learners, team=line.team, event=line.event) for line in lines
        ),
    )


def _curve(lines: Sequence[RoundLine], final: float) -> tuple[CostPoint, ...]:
    by_round = {line.round: line for line in lines}
    last = lines[-1]
    points = []
    for evaluation in (line.evaluation for line in lines if line.evaluation is not None):
        line = by_round.get(evaluation.round)
        seconds, dollars = (line.seconds, line.dollars) if line else (0.0, 0.0)
        if evaluation.env_steps < last.env_steps:
            points.append(
                CostPoint(env_steps=evaluation.env_steps, seconds=seconds, dollars=dollars, mean=evaluation.mean)
            )
    return (*points, CostPoint(env_steps=last.env_steps, seconds=last.seconds, dollars=last.dollars, mean=final))


def mean_rollouts(runs: Sequence[FinishedRun]) -> int:
    """The mean number of rollouts per round over these runs, as a setting. Needs one run."""
    return max(1, round(float(np.mean([run.rollouts for run in runs]))))
