"""A run's evaluations in the layout of marl-eval, so that its tools work on them.

The layout follows github.com/instadeepai/marl-eval (Gorsane et al., "Towards a Standardised Performance Evaluation
Protocol for Cooperative MARL", NeurIPS 2022). This module builds the document. Callers write the file.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from marless.functions.encoding import Undecodable, from_json
from marless.functions.environments.base import EnvTask

METRIC, STEPS = "return", "step_count"
_ABSOLUTE, _STEP = "absolute_metrics", "step_"

_Entry = dict[str, int | list[float]]
RunEntries = dict[str, _Entry]
Document = dict[str, dict[str, dict[str, dict[str, RunEntries]]]]

# The usual names of functions that make environments. They do not identify a task.
_CONSTRUCTORS = ("env", "parallel_env", "raw_env", "make", "make_env")
_NONE: Mapping[str, float] = MappingProxyType({})


class Evaluation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One evaluation during training: environment steps trained so far, one undiscounted return per episode, and the
    means of the environment's metrics."""

    step_count: int
    returns: tuple[float, ...]
    env_metrics: dict[str, float] = {}

    def __repr__(self) -> str:
        metrics = "".join(f", {name} {mean:.4g}" for name, mean in self.env_metrics.items())
        of = (
            f"{len(self.returns):,} episodes: mean return {np.mean(self.returns):.4g}" if self.returns else "no episode"
        )
        return f"<Evaluation after {self.step_count:,} steps, {of}{metrics}>"


def document(
    task: EnvTask,
    algorithm: str,
    seed: int,
    evaluations: Iterable[Evaluation],
    absolute: Sequence[float],
    absolute_env_metrics: Mapping[str, float] = _NONE,
) -> Document:
    """The JSON document of one run: environment -> task -> algorithm -> ``seed_<n>`` -> ``step_<i>``.

    `evaluations` come in the order of training. `absolute` holds the returns for the absolute metric: the run's best
    policy on ten times the episodes (Gorsane et al. 2022). It is last because marl-eval takes a run's last entry
    for it. The environment's metrics are metrics of one value, their mean. Numbers keep every digit.
    """
    run: RunEntries = {
        f"{_STEP}{index}": {STEPS: evaluation.step_count, **_metrics(evaluation.returns, evaluation.env_metrics)}
        for index, evaluation in enumerate(evaluations)
    }
    run[_ABSOLUTE] = _metrics(absolute, absolute_env_metrics)
    environment, scenario = names(task)
    return {environment: {scenario: {algorithm: {f"seed_{seed}": run}}}}


def read(body: bytes) -> list[Evaluation]:
    """Return the evaluations of a document of one run, in the order of training. Raises `Undecodable`."""
    return [_evaluation(entry) for name, entry in entries(body).items() if name.startswith(_STEP)]


def absolute(run: RunEntries, metric: str = METRIC) -> tuple[float, ...]:
    """Return a run's absolute metric: its returns, or the mean of another metric. Empty if it is missing."""
    returns = run.get(_ABSOLUTE, {}).get(metric, [])
    return tuple(returns) if isinstance(returns, list) else ()


def metrics_of(run: RunEntries) -> list[str]:
    """The metrics of a run's evaluations, the return first."""
    metric_names = dict.fromkeys(name for key, entry in run.items() if key.startswith(_STEP) for name in entry)
    return [name for name in metric_names if name != STEPS]


def means(run: RunEntries, metric: str = METRIC) -> dict[int, float]:
    """Return the mean of a metric over each evaluation's episodes, by environment steps. All evaluations need a return.
    Raises `LookupError` and `ValueError`."""
    means_by_step: dict[int, float] = {}
    for key, entry in run.items():
        if not key.startswith(_STEP) or (metric != METRIC and metric not in entry):
            continue
        steps, values = entry[STEPS], entry[metric]
        if not isinstance(steps, int) or not isinstance(values, list) or not values:
            raise ValueError(f"{key} has no numbers under {STEPS!r} and {metric!r}")
        means_by_step[steps] = float(np.mean(values))
    return means_by_step


def entries(body: bytes) -> RunEntries:
    """Return the entries of a run's document by ``step_<i>``. Raises `Undecodable`."""
    runs = [
        run
        for tasks in from_json(body, Document).values()
        for algorithms in tasks.values()
        for seeds in algorithms.values()
        for run in seeds.values()
    ]
    if len(runs) != 1:
        raise Undecodable(f"it is of {len(runs)} runs, not of one")
    return runs[0]


def merge(whole: Document, one: Document) -> None:
    """Adds the runs of `one` to `whole`."""
    for environment, tasks in one.items():
        for task, algorithms in tasks.items():
            for algorithm, runs in algorithms.items():
                whole.setdefault(environment, {}).setdefault(task, {}).setdefault(algorithm, {}).update(runs)


def _evaluation(entry: Mapping[str, Any]) -> Evaluation:
    metrics = {name: values[0] for name, values in entry.items() if name not in (STEPS, METRIC)}
    return Evaluation(step_count=entry[STEPS], returns=tuple(entry[METRIC]), env_metrics=metrics)


def names(task: EnvTask) -> tuple[str, str]:
    """Names of environment and task for marl-eval, in lower case because it looks them up so.

    ``mpe/simple_spread`` with 3 agents gives ``mpe`` and ``simple_spread-3``.
    ``pettingzoo:mpe2.simple_spread_v3:parallel_env`` gives ``mpe2`` and ``simple_spread_v3``. A name of one part is
    used for both.
    """
    environment, _, scenario = _path(task.name.lower()).partition("/")
    return environment, "-".join([scenario or environment, *map(str, task.team_sizes)])


def _path(name: str) -> str:
    # ``adapter:package.module:factory`` becomes ``package/module``.
    if ":" not in name:
        return name
    adapter, module, *factory = name.split(":")
    *packages, last = [*module.split("."), *(word for word in factory if word not in _CONSTRUCTORS)]
    return f"{'.'.join(packages) or adapter}/{last}"


def _metrics(returns: Sequence[float], env_metrics: Mapping[str, float]) -> _Entry:
    # In lower case for the same reason as the names of tasks.
    custom = {name.lower(): [value] for name, value in env_metrics.items() if name.lower() not in (METRIC, STEPS)}
    return {METRIC: [float(value) for value in returns], **custom}
