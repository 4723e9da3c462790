"""The difference of two arms over the same seeds, and whether it shows that the arms are equal."""

from collections.abc import Sequence

from marless.reports.statistics import FEWEST_SEEDS, mean, paired_p_value, tost_paired

LEVEL = 0.05


def conclusion(first: Sequence[float], second: Sequence[float], margin: float | None) -> str:
    """Return the verdict of pairs of one seed: arms are equal within a margin, they differ, or neither.

    The margin must be fixed before the runs. Arms are equal if the 90 % interval of the mean difference is within the
    margin, by `tost_paired`. Only with a margin can a result show that arms are equal.
    """
    if len(first) < FEWEST_SEEDS:
        return f"{len(first)} pairs, {FEWEST_SEEDS} are needed"
    differences = [a - b for a, b in zip(first, second, strict=True)]
    shown = []
    if paired_p_value(differences) < LEVEL:
        shown.append("lower" if mean(differences) < 0 else "higher")
    if margin is not None and tost_paired(first, second, margin).p_value < LEVEL:
        shown.append(f"equal within {margin:g}")
    return ", but ".join(shown) or "undecided"


def interval(first: Sequence[float], second: Sequence[float], digits: int) -> str:
    """Return the mean difference of pairs with its 90 % interval, as text."""
    test = tost_paired(first, second, margin=1.0)  # the interval depends on no margin
    low, high = test.ci90
    return f"{test.difference:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"
