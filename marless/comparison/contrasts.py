"""Headlines: the few contrasts that an ablation declares before its runs. Their p-values are corrected together.

Of many intervals at 95 % some miss by chance. A headline's intervals are corrected by Holm's procedure ("A Simple
Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics, 1979). With probability 95 %, every
declared contrast that is called different has an effect.
"""

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from marless.comparison.signal_savings import Bound
from marless.coordinator.config.schema import ConfigError
from marless.reports.statistics import Interval

Measure = Literal["return", "dollars", "reach"]
LEVEL = 0.05


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """An arm against another by its final return, its dollars, or its dollars to reach the target return."""

    arm: str
    against: str
    measure: Measure


class Headline(msgspec.Struct, frozen=True, kw_only=True):
    """A contrast over `runs` pairs: the difference in return or the ratio of dollars with its 95 % interval.

    `p_value` tests equality by the paired t-test (of ratios on logarithms). It is None for a single pair and for a
    ratio that is only a `bound`. `adjusted` is Holm's, to be compared with `LEVEL`.
    """

    contrast: Contrast
    runs: int
    value: float | None
    ci95: Interval | None
    bound: Bound
    p_value: float | None
    adjusted: float


def contrasts(texts: Iterable[str], arms: Iterable[str]) -> list[Contrast]:
    """The contrasts written as ``ours/marless-minus:return``. Raises `ConfigError` for an unknown arm or measure, and
    for the same contrast twice."""
    arm_names, contrast_list = list(arms), []
    for text in texts:
        pair, colon, measure = text.rpartition(":")
        arm, slash, against = pair.partition("/")
        if not (colon and slash) or measure not in get_args(Measure):
            raise ConfigError(
                f"headline {text!r}: write ARM/OTHER:MEASURE, with one of {', '.join(get_args(Measure))} as the measure"
            )
        missing = next((name for name in (arm, against) if name not in arm_names), None)
        if missing is not None or arm == against:
            why = f"there is no arm {missing}" if missing is not None else f"{arm} is compared with itself"
            raise ConfigError(f"headline {text!r}: {why}; the arms are {', '.join(arm_names)}")
        contrast = msgspec.convert({"arm": arm, "against": against, "measure": measure}, Contrast)
        if contrast in contrast_list:
            raise ConfigError(f"headline {text!r} is given twice")
        contrast_list.append(contrast)
    return contrast_list
