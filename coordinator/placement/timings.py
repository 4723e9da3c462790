"""Durations of tasks and of waves of tasks, fitted to ended tasks: a line per kind, milliseconds by size.

Every round the earlier observations lose a tenth of their weight, so that a slow start fades. Durations are on a whole
core: `whole_core_ms` first converts measurements on a share of a vCPU. Fits change where work runs, never its results.
"""

import heapq
from collections.abc import Mapping, Sequence

from marless.coordinator.placement.layout import RoundWorkload
from marless.coordinator.placement.placement_rules import SUMS
from marless.functions.messages.message import Message

FORGETTING = 0.9
# One size does not determine a line. Then the duration of an empty call counts as independent of the size, and the rest
# as proportional to it.
OVERHEAD_MS = 2.0
# Sizes with a smaller squared coefficient of variation count as one size. With 10 % noise, ten rounds would determine
# the overhead only to a third of the duration.
LEAST_SPREAD = 0.01


class Fit(Message, frozen=True, kw_only=True):
    """Weighted sums over observations (x, y): of 1, x, x², y and xy."""

    count: float = 0.0
    sx: float = 0.0
    sxx: float = 0.0
    sy: float = 0.0
    sxy: float = 0.0


Timings = dict[str, Fit]
"""Fits by kind of task, and by `kind@style` the ratio of a style's durations to its kind's line.

Kinds and sizes: `sample`, rollouts; `learn` (all stages in one task) and `learn:<stage>`, rows, which are environment
steps times agents that learn from them; `grad` (sums over a micro-batch), rows; `whole`, rollouts times rounds.
"""


def add_observation(
    timings: Mapping[str, Fit], kind: str, size: float, ms: float, style: str = "", weight: float = 1.0
) -> Timings:
    """The timings with another task of `size` that took `ms`, both not negative.

    `weight`: one over the tasks of its kind in the round, so that a round counts once however it is spread. With
    `style` (see `RoundPlacement.style`) the ratio of `ms` to the line is fitted too.
    """
    fits = {**timings, kind: _add(timings.get(kind, Fit()), size, ms, weight)}
    expected_ms = predict(fits, kind, size)
    if style and expected_ms is not None:
        key = f"{kind}@{style}"
        fits[key] = _add(timings.get(key, Fit()), expected_ms, ms, weight)
    return fits


def whole_core_ms(ms: float, memory_mb: int, mb_per_vcpu: int) -> float:
    """The duration on a whole core of a task that took `ms` in a function of `memory_mb`, as the platform measured it.

    Undoes the CPU scaling of `bill.billed_ms`. Waiting does not scale with memory, so predictions for functions of
    another size are too low. Predictions for the same size are exact.
    """
    return ms / max(1.0, mb_per_vcpu / memory_mb)


def predict(timings: Mapping[str, Fit], kind: str, size: float, style: str = "") -> float | None:
    """Return the milliseconds of a task, at least 0, or None for an unobserved kind."""
    if (fitted_line := line(timings, kind)) is None:
        return None
    overhead, slope = fitted_line
    ratio = timings.get(f"{kind}@{style}")
    correction = ratio.sy / ratio.sx if ratio and ratio.sx > 0 else 1.0
    return correction * (overhead + slope * size)


def line(timings: Mapping[str, Fit], kind: str) -> tuple[float, float] | None:
    """(milliseconds of any task of the kind, milliseconds per size on top), neither negative.

    Least squares over the quarter-plane in closed form. If the free minimum lies inside, it is used, else the better of
    the two edges, because the objective is convex. For a single size, `OVERHEAD_MS` and the rest in proportion.
    """
    fit = timings.get(kind)
    if fit is None or fit.count <= 0:
        return None
    determinant = fit.count * fit.sxx - fit.sx * fit.sx
    if determinant <= LEAST_SPREAD * fit.sx * fit.sx:
        overhead = min(OVERHEAD_MS, fit.sy / fit.count) if fit.sx > 0 else fit.sy / fit.count
        return overhead, (fit.sy - overhead * fit.count) / fit.sx if fit.sx > 0 else 0.0
    slope = (fit.count * fit.sxy - fit.sx * fit.sy) / determinant
    overhead = (fit.sy * fit.sxx - fit.sx * fit.sxy) / determinant
    if overhead >= 0 and slope >= 0:
        return overhead, slope
    edges = ((0.0, fit.sxy / fit.sxx), (fit.sy / fit.count, 0.0))
    return min(edges, key=lambda edge: _loss(fit, *edge))


def _loss(fit: Fit, overhead: float, slope: float) -> float:
    """The sum of squared errors minus the sum of squares of y, which is the same for all lines."""
    squares = overhead * overhead * fit.count + 2 * overhead * slope * fit.sx + slope * slope * fit.sxx
    return squares - 2 * (overhead * fit.sy + slope * fit.sxy)


def _add(fit: Fit, x: float, y: float, weight: float) -> Fit:
    keep = FORGETTING**weight
    return Fit(
        count=keep * fit.count + weight,
        sx=keep * fit.sx + weight * x,
        sxx=keep * fit.sxx + weight * x * x,
        sy=keep * fit.sy + weight * y,
        sxy=keep * fit.sxy + weight * x * y,
    )


def span(tasks: Sequence[tuple[float, int]], width: int) -> float:
    """Return the end of the last of (milliseconds, count) tasks, started in order on `width` slots."""
    (first, number), *others = tasks
    width = min(width, sum(number for _, number in tasks))
    rows, more = divmod(number, width)
    ends = [rows * first] * (width - more) + [(rows + 1) * first] * more
    for ms, number in others:
        for _ in range(number):
            heapq.heapreplace(ends, ends[0] + ms)
    return max(ends)


def is_measured(workload: RoundWorkload, timings: Mapping[str, Fit]) -> bool:
    """Return whether the timings determine the duration of every kind of task."""
    kinds = ("sample", "learn", *((SUMS,) if workload.sums_bytes is not None else ()))
    return all(milliseconds(kind, 1.0, workload, timings) is not None for kind in kinds)


def milliseconds(
    kind: str, size: float, workload: RoundWorkload, timings: Mapping[str, Fit], style: str = ""
) -> float | None:
    """Return a task's milliseconds on a whole core. An unmeasured kind is composed of measured kinds, if possible."""
    measured_ms = predict(timings, kind, size, style)
    if measured_ms is not None or kind in ("sample", SUMS):
        return measured_ms
    if kind == "whole":
        return _whole(size, workload, timings)
    fitted_line = _learning(kind, workload, timings)
    return None if fitted_line is None else fitted_line[0] + fitted_line[1] * size


def _whole(size: float, workload: RoundWorkload, timings: Mapping[str, Fit]) -> float | None:
    """Sampling and learning in sequence with all of their overhead: savings count only when they are measured."""
    sampling = milliseconds("sample", workload.rollouts, workload, timings)
    rows = workload.agents * workload.rollouts * workload.rollout_steps
    learning = milliseconds("learn", rows, workload, timings)
    summing = milliseconds(SUMS, rows, workload, timings) if workload.sums_bytes is not None else 0.0
    if sampling is None or learning is None or summing is None:
        return None
    return size / workload.rollouts * (sampling + learning + summing)


def _learning(kind: str, workload: RoundWorkload, timings: Mapping[str, Fit]) -> tuple[float, float] | None:
    """The line of an unmeasured kind of learner task, from its stages or else from tasks of all stages.

    Stages in one task share one overhead, the largest. A stage without measurements takes an equal share.
    """
    every = [stage.name for stage in workload.stages]
    stages = every if kind == "learn" else kind.removeprefix("learn:").split("+")
    lines = [fitted_line for stage in stages if (fitted_line := line(timings, f"learn:{stage}"))]
    if len(lines) == len(stages):
        return max(overhead for overhead, _ in lines), sum(slope for _, slope in lines)
    whole = line(timings, "learn")
    return (whole[0], whole[1] * len(stages) / len(every)) if whole else None
