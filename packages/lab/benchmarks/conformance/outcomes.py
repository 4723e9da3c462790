"""The records of a case together: its returns over seeds, their cost, and whether it passes its bar."""

import math
import statistics as plain
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import table
from benchmarks.conformance import record
from benchmarks.conformance.bounded_interval import bounded_ci95
from benchmarks.conformance.cases import REFERENCE, Case, Protocol, missing
from benchmarks.conformance.record import Record
from marless.comparison.finished_run import CostPoint
from marless.reports import statistics


@dataclass(frozen=True)
class Outcome:
    """A case of a protocol and its records, by seed."""

    protocol: str
    case: Case
    records: Mapping[int, Record]

    @property
    def finished(self) -> list[Record]:
        """The records of finished cells, by seed."""
        return [found for _, found in sorted(self.records.items()) if found.status == "finished"]

    @property
    def complete(self) -> bool:
        """True if every seed finished."""
        return {found.seed for found in self.finished} == set(self.case.seeds)

    @property
    def returns(self) -> list[float]:
        """The return of each finished seed, see `value`."""
        return [value for value in map(self.value, self.finished) if value is not None]

    def value(self, found: Record) -> float | None:
        """The absolute metric. If two sides learn, the return of the final policies, because the best policies of the
        curve may have met the weakest opponents."""
        if self.case.measure == "sides":
            return found.final
        return None if found.absolute is None else found.absolute.mean

    @property
    def commits(self) -> list[str]:
        """Short commits of the programs that trained the finished seeds. A + marks uncommitted changes."""
        whole = (found.commit for found in self.finished if found.commit)
        return sorted({commit[:7] + "+" * commit.endswith("+") for commit in whole})

    @property
    def mean(self) -> float:
        """The mean return over the finished seeds, at least one."""
        return statistics.mean(self.returns)

    @property
    def ci95(self) -> statistics.Interval | None:
        """The interval of the mean over seeds: Student's, or one within the task's bounds. None for one seed."""
        if len(self.returns) < 2:
            return None
        if self.case.bounds is None:
            return statistics.ci95(self.returns)
        return bounded_ci95(self.returns, self._episodes, self.case.bounds)

    @property
    def _episodes(self) -> int:
        """The fewest episodes behind a seed's return."""
        return min(found.absolute.episodes for found in self.finished if found.absolute is not None)

    @property
    def env_steps(self) -> int:
        """The largest number of steps of a finished seed."""
        return max(found.env_steps for found in self.finished)

    @property
    def seconds(self) -> float:
        """Seconds of training on one core, mean over seeds."""
        return statistics.mean([found.seconds for found in self.finished])

    def reached(self) -> list[CostPoint | None]:
        """The first evaluation of each finished seed that reaches the bar."""
        least = self.case.bar
        if least is None:
            return []
        return [next((point for point in found.curve if point.mean >= least), None) for found in self.finished]

    @property
    def failed(self) -> int:
        """The number of failed seeds."""
        return len(self.records) - len(self.finished)


def outcomes(protocol: Protocol, folder: Path) -> list[Outcome]:
    """Return the outcomes of all cases, also of cases without records. Raise `UnreadableFile`."""
    found, records = [], record.read(record.path(folder, protocol.name))
    for case in protocol.cases:
        held = {seed: records[key] for seed in case.seeds if (key := (case.arm.name, seed)) in records}
        found.append(Outcome(protocol.name, case, held))
    return found


def verdict(outcome: Outcome, others: Iterable[Outcome]) -> str:
    """The table's verdict on a case. `others` are of the same task and treatment."""
    case, seeds, failed = outcome.case, len(outcome.case.seeds), outcome.failed
    if not outcome.records:
        why = missing(case)
        return f"not run: {why}" if why else "not run yet"
    if len(outcome.records) < seeds:
        return f"{len(outcome.records)} of {seeds} seeds so far" + (f", {failed} failed" if failed else "")
    failures = f", {failed} failed" if failed else ""
    if case.bar is None or (case.criterion == "best" and outcome is not best(others)):
        return f"reported{failures}"
    return table.verdict([*outcome.returns, *[-math.inf] * failed], case.bar) + failures


def best(found: Iterable[Outcome]) -> Outcome | None:
    """Return the outcome with the highest mean, or None."""
    return max((outcome for outcome in found if outcome.returns), key=lambda outcome: outcome.mean, default=None)


def missed(found: list[Outcome]) -> list[Outcome]:
    """Return the outcomes that missed a mandatory bar or have failed seeds."""
    return [outcome for outcome in found if _short(outcome, _beside(outcome, found))]


def _beside(outcome: Outcome, found: list[Outcome]) -> list[Outcome]:
    key = (outcome.case.task, outcome.case.treatment)
    return [other for other in found if (other.case.task, other.case.treatment) == key]


def _short(outcome: Outcome, beside: list[Outcome]) -> bool:
    return bool(outcome.records) and ("MISSED" in (said := verdict(outcome, beside)) or "failed" in said)


def typical(reached: list[CostPoint | None]) -> tuple[float, float] | None:
    """Return median environment steps and seconds to a bar. None if a seed missed it."""
    points = [point for point in reached if point is not None]
    if not points or len(points) < len(reached):
        return None
    return plain.median(point.env_steps for point in points), plain.median(point.seconds for point in points)


def layout(found: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """Return the figures by task and name. Plain names of algorithms come first.

    Figures outside the plain name, see `_leading`, are named by their treatment: ``mappo-quick``.
    """
    document: dict[str, dict[str, Any]] = {}
    leading, names = _leading(found), names_of(found)
    for outcome in (*leading, *(other for other in found if other not in leading)):
        case = outcome.case
        if not outcome.returns or case.treatment == REFERENCE:
            continue
        document.setdefault(case.task, {})[names[case.arm.name]] = {
            "protocol": outcome.protocol,
            "mean": outcome.mean,
            "ci95": outcome.ci95,
            "seeds": [made.seed for made in outcome.finished],
            "env_steps": outcome.env_steps,
            "seconds": outcome.seconds,
            "commits": outcome.commits,
        }
    return document


def names_of(found: Sequence[Outcome]) -> dict[str, str]:
    """Return the name of every case by its arm's name: the algorithm, with the treatment behind it unless it leads."""
    leading = _leading(found)
    return {
        outcome.case.arm.name: outcome.case.algorithm
        if outcome in leading
        else f"{outcome.case.algorithm}-{outcome.case.treatment}"
        for outcome in found
    }


def _leading(found: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcome that represents each algorithm on each task, from the first treatment of each protocol. It is
    the last complete outcome, else the last: a few seeds of a long protocol say less than all of a short one."""
    first: dict[tuple[str, str], str] = {}
    chosen: dict[tuple[str, str], Outcome] = {}
    for outcome in found:
        case = outcome.case
        if case.treatment == REFERENCE:
            continue
        if case.treatment != first.setdefault((outcome.protocol, case.task), case.treatment) or not outcome.returns:
            continue
        held = chosen.get((case.task, case.algorithm))
        if held is None or outcome.complete or not held.complete:
            chosen[case.task, case.algorithm] = outcome
    return list(chosen.values())
