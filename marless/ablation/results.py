"""Results of a cell's run, read from its metrics.jsonl and summary.json."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from coordinator.core.state import RoundLine
from coordinator.file_reading import UnreadableFile, read_json
from marless.reports.journal import read as read_lines

FLIPS = ("shared", "split")

_Part = TypeVar("_Part")


class Point(msgspec.Struct, frozen=True, kw_only=True):
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


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a finished run.

    `dollars` and `seconds` are of training, to the end of the last round. `actor`, `learner`, `evaluator` (compute),
    `requests` (of functions) and `storage` are the bill of the whole run, including the final evaluation.
    `rollouts` and `learners` (invocations) are means per round, `sharing` is the share of rounds in which some agents
    shared a network; `flips` counts switches of sharing, `rejected` trials that rejected it. `final_return` is
    greedy, of the final policies. `curve` ends with it. `plays` are returns against other teams by name, see
    `reports.crossplay`.
    """

    arm: str
    seed: int
    rounds: int
    env_steps: int
    seconds: float
    dollars: float
    actor: float
    learner: float
    evaluator: float
    requests: float
    storage: float
    rollouts: float
    learners: float
    sharing: float
    flips: int
    rejected: int
    final_return: float
    code: str
    curve: tuple[Point, ...]
    history: tuple[Round, ...]
    plays: dict[str, float] = {}

    @property
    def functions(self) -> float:
        """The bill without storage: compute and requests of functions."""
        return self.actor + self.learner + self.evaluator + self.requests


class _Return(msgspec.Struct, frozen=True):
    mean: float


class _Dollars(msgspec.Struct, frozen=True):
    actor: float
    learner: float
    evaluator: float
    requests: float
    storage: float


class _Summary(msgspec.Struct, frozen=True):
    """The compared part of a run's summary.json."""

    rounds: int
    env_steps: int
    final_return: _Return
    dollars: _Dollars


class _Identity(msgspec.Struct, frozen=True):
    """The version of the program, from a run's plan.json."""

    code_sha256: str


class Unreadable(Exception):
    """A run's files are not those of a finished run; the message names the file."""


def read(folder: Path, arm: str, seed: int) -> Result:
    """The finished run in `folder`; raises `Unreadable`."""
    summary = _read(folder / "summary.json", _Summary)
    code = _read(folder / "plan.json", _Identity).code_sha256
    lines = [line for line in read_lines(folder / "metrics.jsonl") if line.round <= summary.rounds]
    if not lines or lines[-1].round != summary.rounds:
        raise Unreadable(f"{folder / 'metrics.jsonl'} does not have all {summary.rounds} rounds")
    return result(arm, seed, summary, lines, code)


def result(arm: str, seed: int, summary: _Summary, lines: Sequence[RoundLine], code: str) -> Result:
    """The results of a run with `lines`, one for each of its rounds."""
    events = [line.event for line in lines]
    return Result(
        arm=arm,
        seed=seed,
        rounds=summary.rounds,
        env_steps=summary.env_steps,
        seconds=lines[-1].seconds,
        dollars=lines[-1].dollars,
        actor=summary.dollars.actor,
        learner=summary.dollars.learner,
        evaluator=summary.dollars.evaluator,
        requests=summary.dollars.requests,
        storage=summary.dollars.storage,
        rollouts=float(np.mean([line.rollouts for line in lines])),
        learners=float(np.mean([line.learners for line in lines])),
        sharing=float(np.mean([len(set(line.team)) < len(line.team) for line in lines])),
        flips=sum(event in FLIPS for event in events),
        rejected=events.count("rejected"),
        final_return=summary.final_return.mean,
        code=code,
        curve=_curve(lines, summary.final_return.mean),
        history=tuple(
            Round(rollouts=line.rollouts, learners=line.learners, team=line.team, event=line.event) for line in lines
        ),
    )


def mean_rollouts(results: Sequence[Result]) -> int:
    """The mean number of rollouts per round over these runs, as a setting; needs one run."""
    return max(1, round(float(np.mean([result.rollouts for result in results]))))


def _curve(lines: Sequence[RoundLine], final: float) -> tuple[Point, ...]:
    """The evaluations, each at the end of the round that trained its policies, and the final return."""
    by_round = {line.round: line for line in lines}
    last = lines[-1]
    points = []
    for evaluation in (line.evaluation for line in lines if line.evaluation is not None):
        line = by_round.get(evaluation.round)
        seconds, dollars = (line.seconds, line.dollars) if line else (0.0, 0.0)
        if evaluation.env_steps < last.env_steps:
            points.append(Point(env_steps=evaluation.env_steps, seconds=seconds, dollars=dollars, mean=evaluation.mean))
    return (*points, Point(env_steps=last.env_steps, seconds=last.seconds, dollars=last.dollars, mean=final))


def _read(path: Path, kind: type[_Part]) -> _Part:
    try:
        return read_json(path, kind)
    except UnreadableFile as error:
        raise Unreadable(str(error)) from error
