"""`text/check` with a judge that is far away: rounds with barriers, in micro-batches, and with a lag."""

import os
import resource
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from benchmarks.language.waiting_judge import MEDIAN_S
from benchmarks.pipeline.launch import Measured, Way, trained
from benchmarks.pipeline.ways import FEW_EVALUATIONS
from benchmarks.table import Row, quotients
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.functions.messages.usage import CallTime

# Rollouts of a round, their episodes, rollouts of a micro-batch, and rounds that are measured.
_ROLLOUTS, _EPISODES, _PART, _ROUNDS = 4, 64, 1, 20
# Workers and cores of the pool, and programs that the judge grades at once.
_WORKERS, _CORES, _SLOTS = 6, 2.0, 32
# The first guess of the median time of an answer, by how much a better one may be longer, and rounds for it.
_GUESS_S, _MOST, _TRIAL = 0.05, 4, 6
_BARRIERS, _LAG = "barriers", "lag 1"
_WAYS: Mapping[str, Mapping[str, int]] = {
    _BARRIERS: {},
    "micro-batches": {"pipeline.micro_batch": _PART},
    _LAG: {"pipeline.lag": 1},
}
# The steps of a question.
_POINTS: Mapping[str, Callable[[CallTime], float]] = {
    "the last question is asked": lambda action: action.asked_ms,
    "a slot takes the last one": lambda action: action.begun_ms,
    "the last answer is there": lambda action: action.ended_ms,
}


def rows(repetitions: int) -> Iterator[Row]:
    """Yield the rounds in each way, repetition by repetition, with a judge that takes as long as learning. Also the
    rounds if learning took no time, or if the processors were always busy, and the times of events."""
    _calibrate()
    every: dict[str, list[Measured]] = {name: [] for name in _WAYS}
    allowed: list[float] = []
    for _ in range(repetitions):
        for name, pipeline in _WAYS.items():
            before = _processor_s()
            every[name].append(trained(_way(pipeline), _ROUNDS))
            used_s = _processor_s() - before
            print(f"        check, {name}: {1000 * every[name][-1].median_s:,.0f} ms", file=sys.stderr, flush=True)
            if name == _BARRIERS:
                allowed.append(_allowed(used_s))
    rates = {name: [1 / each.median_s for each in measured] for name, measured in every.items()}
    rates["sampling alone, as if learning took no time"] = [1 / each.sampling_s for each in every[_BARRIERS]]
    rates["the processors allow no more than"] = allowed
    yield from _against_barriers(rates, "rounds/s", ".2f")
    judged = {name: every[name] for name in (_BARRIERS, _LAG)}
    for moment, point in _POINTS.items():
        times = {name: [_last_ms(each, point) for each in runs] for name, runs in judged.items()}
        yield from _against_barriers(times, f"{moment}, ms")
    ends = {name: [_learners_end_ms(each) for each in runs] for name, runs in judged.items()}
    yield from _against_barriers(ends, "learners have ended, ms")


def _against_barriers(values: Mapping[str, list[float]], what: str, fmt: str = ",.0f") -> Iterator[Row]:
    """A row for each way."""
    for name, measured in values.items():
        ratios = [] if name == _BARRIERS else quotients(measured, values[_BARRIERS])
        yield Row(f"check, a judge far away: {name}, {what}", measured, fmt, "", ratios, _BARRIERS if ratios else "")


def _last_ms(measured: Measured, point: Callable[[CallTime], float]) -> float:
    """Return the milliseconds from the round's first request to the last question at that point."""
    return statistics.median(
        max(
            1000 * (attempt.asked_at - _began(attempts)) + attempt.queued_ms + point(action)
            for attempt in attempts
            for action in attempt.actions
        )
        for attempts in measured.rounds
    )


def _learners_end_ms(measured: Measured) -> float:
    """Return the milliseconds from the round's first request to the last learner's answer."""
    return statistics.median(
        1000 * (max(each.ended_at for each in attempts if each.work.startswith("learn/")) - _began(attempts))
        for attempts in measured.rounds
    )


def _began(attempts: Sequence[AttemptRecord]) -> float:
    return min(attempt.asked_at for attempt in attempts)


def _allowed(used_s: float) -> float:
    """Return the rounds a second if all cores were always busy. A short run gives the use of starting and ending."""
    before = _processor_s()
    trained(_way({}), _TRIAL)
    round_s = (used_s - (_processor_s() - before)) / (_ROUNDS - _TRIAL)
    return _CORES / round_s


def _processor_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _calibrate() -> None:
    """Sampling takes as much longer than with a judge who answers at once as learning takes."""
    os.environ[MEDIAN_S] = "0"
    computing_s = trained(_way({}), _TRIAL).sampling_s
    os.environ[MEDIAN_S] = str(_GUESS_S)
    for _ in range(2):
        measured = trained(_way({}), _TRIAL)
        learning_s, waiting_s = measured.median_s - measured.sampling_s, measured.sampling_s - computing_s
        os.environ[MEDIAN_S] = str(float(os.environ[MEDIAN_S]) * learning_s / max(waiting_s, learning_s / _MOST))


def _way(pipeline: Mapping[str, int]) -> Way:
    settings = {
        **FEW_EVALUATIONS,
        "task.name": "text/check",
        "algorithm.name": "grpo",
        "actors.num_envs": _EPISODES,
        "actors.rollouts": _ROLLOUTS,
        "resources.judge.serve": "benchmarks.language.waiting_judge:grade",
        "resources.judge.slots": _SLOTS,
        "resources.judge.timeout_s": 60,
        **pipeline,
    }
    return Way(settings, _WORKERS, _CORES)
