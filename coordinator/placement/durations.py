"""Durations of tasks on a whole core, composed of the `coordinator.placement.timings` of a run, and of waves."""

import heapq
from collections.abc import Mapping, Sequence

from coordinator.placement.timings import Fit, line, predict
from coordinator.placement.workload import Workload


def span(tasks: Sequence[tuple[float, int]], width: int) -> float:
    """The end of the last of (milliseconds, count) tasks; each starts, in order, when one of `width` slots is free."""
    (first, number), *others = tasks
    width = min(width, sum(number for _, number in tasks))
    rows, more = divmod(number, width)
    ends = [rows * first] * (width - more) + [(rows + 1) * first] * more
    for ms, number in others:
        for _ in range(number):
            heapq.heapreplace(ends, ends[0] + ms)
    return max(ends)


def is_measured(workload: Workload, timings: Mapping[str, Fit]) -> bool:
    """Whether the timings determine the duration of every kind of task."""
    return all(milliseconds(kind, 1.0, workload, timings) is not None for kind in ("sample", "learn"))


def milliseconds(
    kind: str, size: float, workload: Workload, timings: Mapping[str, Fit], style: str = ""
) -> float | None:
    """Duration of a task on a whole core; for an unmeasured kind composed of other kinds, None without these."""
    measured_ms = predict(timings, kind, size, style)
    if measured_ms is not None or kind == "sample":
        return measured_ms
    if kind == "whole":
        return _whole(size, workload, timings)
    fitted_line = _learning(kind, workload, timings)
    return None if fitted_line is None else fitted_line[0] + fitted_line[1] * size


def _whole(size: float, workload: Workload, timings: Mapping[str, Fit]) -> float | None:
    """Sampling and learning in sequence with all of their overhead: savings count only when they are measured."""
    sampling = milliseconds("sample", workload.rollouts, workload, timings)
    learning = milliseconds("learn", workload.agents * workload.rollouts * workload.rollout_steps, workload, timings)
    return None if sampling is None or learning is None else size / workload.rollouts * (sampling + learning)


def _learning(kind: str, workload: Workload, timings: Mapping[str, Fit]) -> tuple[float, float] | None:
    """The line of an unmeasured kind of learner task, from its stages or else from tasks of all stages.

    Stages in one task share one overhead, the largest; without measurements of its own a stage takes an equal share.
    """
    every = [stage.name for stage in workload.stages]
    stages = every if kind == "learn" else kind.removeprefix("learn:").split("+")
    lines = [fitted_line for stage in stages if (fitted_line := line(timings, f"learn:{stage}"))]
    if len(lines) == len(stages):
        return max(overhead for overhead, _ in lines), sum(slope for _, slope in lines)
    whole = line(timings, "learn")
    return (whole[0], whole[1] * len(stages) / len(every)) if whole else None
