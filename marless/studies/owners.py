"""Owners: how the pool of a study is divided. Pure."""

from collections.abc import Iterable, Mapping

from marless.studies.study_file import Owner


def jain(shares: Iterable[float]) -> float:
    """Jain's index of fairness of shares, from 1/n (one has all) to 1 (all have the same).

    (Jain, Chiu & Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation", DEC 1984.)
    """
    values = list(shares)
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def lane_weight(owner: Owner, runs: int) -> float:
    """Return the weight of each of an owner's active `runs`. Together they have the owner's weight."""
    return owner.weight / max(1, runs)


def served_shares(
    busy_s: Mapping[str, float], owners: Mapping[str, str], weights: Mapping[str, float]
) -> dict[str, float]:
    """Return the seconds of each owner's runs, divided by the owner's weight."""
    seconds_by_owner = dict.fromkeys(weights, 0.0)
    for run, seconds in busy_s.items():
        seconds_by_owner[owners[run]] += seconds
    return {owner: seconds / weights[owner] for owner, seconds in seconds_by_owner.items()}
