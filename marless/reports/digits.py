"""Digits of returns and metrics: the usual ones, more for small numbers, an exponent for very large and very small."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

# From here on, and below, numbers have an exponent.
_LARGE, _SMALL = 1e7, 1e-4
# From here on, numbers have one decimal.
_SHORT = 10
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Digits:
    """The format of numbers in one column: with so many `decimals`, or an exponent if all are `tiny`."""

    decimals: int
    tiny: bool = False

    def text(self, value: float, sign: bool = False) -> str:
        """Return the number as text, never minus zero. With `sign`, positive numbers have a sign."""
        plus = "+" if sign else ""
        if (self.tiny and value) or _LARGE <= abs(value) < math.inf:
            return f"{value:{plus}.{1 if self.tiny else 2}e}"
        return f"{round(value, self.decimals) + 0.0:{plus}.{self.decimals}f}"


def digits_of(values: Iterable[float], usual: int | None = None) -> Digits:
    """Return the digits of numbers that stand together.

    They have `usual` decimals, by default two if the largest number is below 10, and else one. If that would show the
    largest number as 0, they have two significant digits of it.
    """
    size = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if usual is None:
        usual = 2 if 0.1 <= size < _SHORT else 1
    if size == 0 or size >= 10**-usual:
        return Digits(usual)
    return Digits(0, tiny=True) if size < _SMALL else Digits(1 - math.floor(math.log10(size)))


def interval_digits(value: float, ends: tuple[float, float]) -> Digits:
    """Return the digits of a number with an interval, with at least one significant digit of half the width."""
    half = (ends[1] - ends[0]) / 2
    digits = digits_of([value, half])
    # Below this share of the number the width is an error of rounding.
    if digits.tiny or not abs(value) * _ROUNDING < half < math.inf:
        return digits
    return Digits(max(digits.decimals, -math.floor(math.log10(half))))


def figure(value: float, usual: int | None = None) -> str:
    """A number on its own: ``-57.8``, ``0.00012``, ``4.00e+12``."""
    return digits_of([value], usual).text(value)
