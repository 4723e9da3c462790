"""How long tasks take, learnt from those that ended: a line per kind of task, milliseconds on size.

The last rounds count most: every round the past loses a tenth of its weight, so that a slow start fades. Durations are
those of a whole core: what a platform measured on a share of one goes through `whole_core_ms` first. What is learnt
here may move work, never change it.
"""

from collections.abc import Mapping

from functions.contract import Message

FORGETTING = 0.9
# With one size seen a line is not determined: an invocation is then taken to need this much (what the emptiest call
# takes) whatever its size, and the rest to grow with it.
OVERHEAD_MS = 2.0
# Sizes with a smaller squared coefficient of variation count as one: at a tenth of noise in ten rounds the overhead
# would be known to a third of the duration at best.
LEAST_SPREAD = 0.01


class Fit(Message, frozen=True, kw_only=True):
    """Weighted sums over observations (x, y): of 1, x, x², y and xy."""

    count: float = 0.0
    sx: float = 0.0
    sxx: float = 0.0
    sy: float = 0.0
    sxy: float = 0.0


Timings = dict[str, Fit]
"""Fits by kind of task, and by `kind@style` how far a way to place tasks is off its kind's line.

Kinds and sizes: `sample`, units; `learn` (all stages in one task) and `learn:<stage>`, rows, which are environment
steps times agents that learn from them; `whole`, units times rounds.
"""


def add_observation(
    timings: Mapping[str, Fit], kind: str, size: float, ms: float, style: str = "", weight: float = 1.0
) -> Timings:
    """The timings with one more task of `size` that took `ms`, both not negative.

    `weight`: one over the tasks of its kind in the round, so that a round counts once however it is spread. With
    `style` (see `RoundPlacement.style`) the ratio of `ms` to the line is remembered too.
    """
    fits = {**timings, kind: _added(timings.get(kind, Fit()), size, ms, weight)}
    expected = predict(fits, kind, size)
    if style and expected is not None:
        key = f"{kind}@{style}"
        fits[key] = _added(timings.get(key, Fit()), expected, ms, weight)
    return fits


def whole_core_ms(ms: float, memory_mb: int, mb_per_vcpu: int) -> float:
    """What a task would take on a whole core that took `ms` in a function of `memory_mb`, as the platform measured it.

    Undoes the stretch of `bill.billed_ms`. Waiting is not stretched by little memory, so for another function than the
    one it was measured in the figure errs downwards; for the same one it comes out exactly.
    """
    return ms / max(1.0, mb_per_vcpu / memory_mb)


def predict(timings: Mapping[str, Fit], kind: str, size: float, style: str = "") -> float | None:
    """Milliseconds of a task, never negative; None for a kind that was never seen."""
    found = line(timings, kind)
    if found is None:
        return None
    overhead, slope = found
    ratio = timings.get(f"{kind}@{style}")
    correction = ratio.sy / ratio.sx if ratio and ratio.sx > 0 else 1.0
    return correction * (overhead + slope * size)


def line(timings: Mapping[str, Fit], kind: str) -> tuple[float, float] | None:
    """(milliseconds of any task of the kind, milliseconds per size on top), neither negative.

    Least squares over the quarter-plane in closed form: the free minimum if it lies inside, else the better one of the
    two edges, for the objective is convex. With one size seen, `OVERHEAD_MS` and the rest in proportion.
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
    """The sum of squared errors, less the sum of squares of y, which no line changes."""
    squares = overhead * overhead * fit.count + 2 * overhead * slope * fit.sx + slope * slope * fit.sxx
    return squares - 2 * (overhead * fit.sy + slope * fit.sxy)


def _added(fit: Fit, x: float, y: float, weight: float) -> Fit:
    keep = FORGETTING**weight
    return Fit(
        count=keep * fit.count + weight,
        sx=keep * fit.sx + weight * x,
        sxx=keep * fit.sxx + weight * x * x,
        sy=keep * fit.sy + weight * y,
        sxy=keep * fit.sxy + weight * x * y,
    )
