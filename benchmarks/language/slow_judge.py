"""`text/check` with a judge that is far away: rounds with barriers, in micro-batches, and with a lag."""

import os
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
# The first guess of the median time of an answer, and rounds for a better one.
_GUESS_S, _TRIAL = 0.05, 6
_BARRIERS = "barriers"
_WAYS: Mapping[str, Mapping[str, int]] = {
    _BARRIERS: {},
    "micro-batches": {"pipeline.rollouts": _PART},
    "lag 1": {"pipeline.lag": 1},
}


def rows(repetitions: int) -> Iterator[Row]:
    """Rounds in each way, repetition by repetition, with a judge whose answers are waited for as long as is learned."""
    _calibrate()
    every: dict[str, list[Measured]] = {name: [] for name in _WAYS}
    for _ in range(repetitions):
        for name, pipeline in _WAYS.items():
            every[name].append(trained(_way(pipeline), _ROUNDS))
            print(f"        check, {name}: {1000 * every[name][-1].median_s:,.0f} ms", file=sys.stderr, flush=True)
    rates = {name: [1 / each.median_s for each in measured] for name, measured in every.items()}
    for name, values in rates.items():
        ratios = [] if name == _BARRIERS else quotients(values, rates[_BARRIERS])
        yield Row(f"check, a judge far away: {name}, rounds/s", values, ".2f", "", ratios, _BARRIERS if ratios else "")


def _calibrate() -> None:
    os.environ[MEDIAN_S] = str(_GUESS_S)
    for _ in range(2):  # what is not waiting takes its part of sampling, too
        measured = trained(_way({}), _TRIAL)
        learning_s = measured.median_s - measured.sampling_s
        os.environ[MEDIAN_S] = str(float(os.environ[MEDIAN_S]) * learning_s / measured.sampling_s)


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
