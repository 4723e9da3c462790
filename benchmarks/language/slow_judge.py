"""`text/check` with a judge that is far away: rounds with barriers, in micro-batches, and with a lag."""

import os
import resource
import sys
from collections.abc import Iterator, Mapping

from benchmarks.language.waiting_judge import MEDIAN_S
from benchmarks.pipeline.launch import Measured, Way, trained
from benchmarks.pipeline.ways import FEW_EVALUATIONS
from benchmarks.table import Row, quotients

# Rollouts of a round, their episodes, rollouts of a micro-batch, and rounds that are measured.
_ROLLOUTS, _EPISODES, _PART, _ROUNDS = 4, 64, 1, 20
# Of the pool; and programs that the judge grades at once.
_WORKERS, _CORES, _SLOTS = 6, 2.0, 32
# The first guess of the median time of an answer, by how much a better one may be longer, and rounds for it.
_GUESS_S, _MOST, _TRIAL = 0.05, 4, 6
_BARRIERS = "barriers"
_WAYS: Mapping[str, Mapping[str, int]] = {
    _BARRIERS: {},
    "micro-batches": {"pipeline.rollouts": _PART},
    "lag 1": {"pipeline.lag": 1},
}


def rows(repetitions: int) -> Iterator[Row]:
    """Rounds in each way, repetition by repetition, with a judge whose answers are waited for as long as is learned;
    and how many the processors allow, whatever the order of the work."""
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
    rates["the processors allow no more than"] = allowed
    for name, values in rates.items():
        ratios = [] if name == _BARRIERS else quotients(values, rates[_BARRIERS])
        yield Row(f"check, a judge far away: {name}, rounds/s", values, ".2f", "", ratios, _BARRIERS if ratios else "")


def _allowed(used_s: float) -> float:
    """Rounds a second if all cores worked all the time: what a short run uses besides is that of starting and
    ending."""
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
        "scaling.rollouts": _ROLLOUTS,
        "resources.judge.serve": "benchmarks.language.waiting_judge:grade",
        "resources.judge.slots": _SLOTS,
        "resources.judge.timeout_s": 60,
        **pipeline,
    }
    return Way(settings, _WORKERS, _CORES)
