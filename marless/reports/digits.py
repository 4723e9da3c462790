"""Digits of returns and metrics: the usual ones, more for small numbers, an exponent for very large and very small."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

# From here on, and below, numbers have an exponent.
_LARGE, _SMALL = 1e7, 1e-4


@dataclass(frozen=True)
class Digits:
    """How numbers that stand together are written: with so many `decimals`; where all are `tiny`, with an exponent."""

    decimals: int
    tiny: bool = False

    def text(self, value: float, sign: bool = False) -> str:
        """The number, never minus zero; `sign`: a positive one has its sign."""
        plus = "+" if sign else ""
        if (self.tiny and value) or _LARGE <= abs(value) < math.inf:
            return f"{value:{plus}.{1 if self.tiny else 2}e}"
        return f"{round(value, self.decimals) + 0.0:{plus}.{self.decimals}f}"


def digits_of(values: Iterable[float], usual: int = 1) -> Digits:
    """The digits of numbers that stand together: `usual` decimals, and two significant digits of the largest number
    where those would show it as 0."""
    size = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if size == 0 or size >= 10**-usual:
        return Digits(usual)
    return Digits(0, tiny=True) if size < _SMALL else Digits(1 - math.floor(math.log10(size)))


def figure(value: float, usual: int = 1) -> str:
    """A number on its own: ``-57.8``, ``0.00012``, ``4.00e+12``."""
    return digits_of([value], usual).text(value)
