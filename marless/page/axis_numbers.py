"""Numbers as short texts, and round numbers along an axis."""

import math
from collections.abc import Sequence

from marless.reports.digits import figure, interval_digits
from marless.reports.section import interval_cell
from marless.reports.text import money

_LARGEST, _SMALLEST = 1e12, 1e-4
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def ticks(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """At most `most` multiples of 1, 2 or 5 times a power of ten between the two, as many as fit. `whole` gives only
    whole numbers."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if (high - low) / step < most)
    step = max(1.0, step) if whole else step
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def labels(at: Sequence[float], dollars: bool = False) -> list[str]:
    """The ticks as text, all with as many digits: ``20k``, ``-57.5``, ``$0.002``."""
    step = at[1] - at[0] if len(at) > 1 else max(map(abs, at), default=1.0)
    largest = max(map(abs, at), default=0.0)
    unit, letter = next(((unit, letter) for unit, letter in _LARGE if largest >= max(unit, 1e4)), (1.0, ""))
    digits = max(0, -math.floor(math.log10(step / unit) + 1e-9)) if step else 0
    sign = "$" if dollars else ""
    if not dollars and (largest >= 1000 * _LARGEST or 0 < largest < _SMALLEST):
        return [f"{value + 0.0:.6g}" for value in at]
    return [f"{sign}{value / unit + 0.0:,.{digits}f}{letter}" if value else f"{sign}0" for value in at]


def number(value: float) -> str:
    """About four digits: ``96,000``, ``-57.5``, ``0.0123``, with an exponent instead of a row of zeros."""
    size = abs(value)
    if size >= _LARGEST or 0 < size < _SMALLEST:
        return figure(value)
    if size >= 1000 or (value == int(value) and size >= 10):
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1 or value == 0:
        return f"{value:.2f}".removesuffix(".00")
    return f"{value:.{2 - math.floor(math.log10(size))}f}"


def interval(value: float, ends: tuple[float, float] | None) -> str:
    """``-57.5 (-58.0 to -57.0)``, or the value alone without an interval."""
    return number(value) if ends is None else interval_cell(value, ends, interval_digits(value, ends).text)


def amount(value: float, axis: str) -> str:
    """A place on an axis: ``32,000 steps``, ``1.2 s``, ``$0.0021``, ``round 20``."""
    if axis == "dollars":
        return money(value)
    if axis == "seconds":
        return f"{number(value)} s"
    return f"{value:,.0f} steps" if axis == "steps" else f"{axis} {number(value)}"
