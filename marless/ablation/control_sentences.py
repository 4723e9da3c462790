"""The conclusions from controls, and how their numbers are written."""

from collections.abc import Container

import numpy as np

from marless.comparison.paired_by_seed import Control
from marless.comparison.signal_savings import FACTOR
from marless.reports.section import NONE

# Before a ratio that is a bound.
BOUNDS = {"exact": "", "at least": "≥ ", "at most": "≤ ", "unknown": ""}


def sentence(item: Control, failures: Container[str]) -> str:
    """The conclusion from one control."""
    seeds = f"{item.runs} seed{'s' * (item.runs != 1)}"
    dollars = item.dollars
    start = f"**{item.tested}** against **{item.arm}**: "
    if dollars is None or item.verdict == "open":
        which = {"exact": "", "at least": item.tested, "at most": item.arm, "unknown": "both"}[item.bound]
        failed = " and ".join(name for name in (item.tested, item.arm) if name in failures)
        reason = f"runs of {failed} failed" if failed else f"runs of {which} never reached the target"
        return f"{start}not decided by {seeds}{which and f'; {reason}'}."
    if item.verdict == "equal":
        little = dollars.ci90 is not None and dollars.ci90[1] < 1
        saving = f"little, {percentage(1 - dollars.ratio)}" if little else "nothing"
        return f"{start}equal within a factor {FACTOR} (p {probability(item)}): the signal saves {saving}."
    if item.verdict == "costs":
        times = f"{BOUNDS[item.bound]}{ratio_text(dollars.ratio)}"
        return f"{start}different: the signal saves nothing, with it the same return costs {times} times as much."
    return f"{start}different: {_saving_without_signal(item)}."


def _saving_without_signal(item: Control) -> str:
    if item.savings is None:
        return f"the signal saves, but a saving of {item.tested} against the baseline is not sure"
    remaining = item.savings.control / item.savings.tested
    most = "at most " if item.bound == "at most" and remaining > 0 else ""
    share = f"{most}{percentage(remaining)}" if remaining > 0 else "nothing"
    return f"{share} of the saving against the baseline is left without the signal"


def probability(item: Control) -> str:
    """Two digits, or a dash for a bound, which is not tested for equality."""
    if item.bound != "exact" or item.dollars is None or item.dollars.p_value is None:
        return NONE
    return f"= {item.dollars.p_value:.2g}" if item.dollars.p_value >= 0.001 else "< 0.001"


def percentage(value: float) -> str:
    """Return a share in whole per cent."""
    return f"{round(100 * value)} %"


def ratio_text(ratio: float) -> str:
    """Two digits. Ratios of 100 and more are not spelled out."""
    if ratio < 0.1:
        return np.format_float_positional(ratio, precision=2, fractional=False)
    return f"{ratio:.2f}" if ratio < 100 else "over 100"
