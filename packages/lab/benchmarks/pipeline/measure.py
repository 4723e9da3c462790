"""Measures all comparisons, repetition by repetition, and stores the record of a full measurement."""

import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from benchmarks.comparisons.conditions import Measuring
from benchmarks.comparisons.measurement_record import Record
from benchmarks.pipeline import prediction, ways
from benchmarks.pipeline.launch import Measured, Way, trained
from benchmarks.pipeline.record import FILE, Comparison

# Rounds of a run with waiting rollouts, with computing rollouts, and of the default run.
_WAITING, _COMPUTING, _DEFAULT = 5, 20, 80
Predict = Callable[[Measured, Measured], float]


@dataclass(frozen=True)
class Asked:
    """A comparison of two ways by their names: `other` takes `ratio` times as long as `own`, and at least `least`.

    `predict` gives the ratio from the tasks of `own` and of `other`.
    """

    name: str
    own: str
    other: str
    against: str
    least: float | None = None
    predict: Predict | None = None


def table(repetitions: int, is_record: bool) -> str:
    """Measure. Returns the table as markdown, and the place of the measurement. A record is stored."""
    measuring = Measuring()
    sections = (_one_learner, _two_learners, _computing, _lag_of_default, _lag_of_waiting, _evaluation)
    comparisons = [comparison for section in sections for comparison in section(repetitions)]
    measured = Record(**msgspec.structs.asdict(measuring.conditions()), comparisons=comparisons)
    if is_record:
        FILE.write(measured)
    return FILE.text(measured)


def _one_learner(repetitions: int) -> list[Comparison]:
    """Rollouts that wait, and one slot that learns for as long as they are sampled."""
    wait_s = ways.calibrated_wait_s(ways.waiting(1, 0.0, rollouts=ways.ROLLOUTS), 1.0)
    name = "waits, learns as long as it samples; micro-batches"
    return _compared(
        {
            "streamed": ways.waiting(1, wait_s, rollouts=ways.PART),
            "whole": ways.waiting(1, wait_s, rollouts=ways.ROLLOUTS),
            "plain": ways.waiting(1, wait_s),
        },
        _WAITING,
        repetitions,
        [
            Asked(name, "streamed", "whole", "one learner of the same sums, afterwards", 1.5, _over_whole(1)),
            Asked(name, "streamed", "plain", "one learner without sums, afterwards"),
        ],
    )


def _two_learners(repetitions: int) -> list[Comparison]:
    """Rollouts that wait, and two slots that learn for one and a half times as long as they are sampled."""
    wait_s = ways.calibrated_wait_s(ways.waiting(2, 0.0, rollouts=ways.ROLLOUTS), 1.5)
    name = "waits, learns 1.5 times as long, on two slots; micro-batches"
    return _compared(
        {
            "streamed": ways.waiting(2, wait_s, rollouts=ways.PART),
            "behind": ways.waiting(2, wait_s, "partials", rollouts=ways.PART),
            "whole": ways.waiting(2, wait_s, rollouts=ways.ROLLOUTS),
        },
        _WAITING,
        repetitions,
        [
            Asked(name, "streamed", "whole", "one learner of the same sums, afterwards", 2.03, _over_whole(2)),
            Asked(name, "streamed", "behind", "the same micro-batches, afterwards", 1.3, _over_behind(2)),
        ],
    )


def _computing(repetitions: int) -> list[Comparison]:
    """Compare rollouts that compute, on the slots of the learners: if all slots are busy, there is no gain."""
    return _compared(
        {"streamed": ways.computing(rollouts=2), "behind": ways.computing("partials", rollouts=2)},
        _COMPUTING,
        repetitions,
        [Asked("computes; micro-batches", "streamed", "behind", "the same micro-batches, afterwards")],
    )


def _lag_of_default(repetitions: int) -> list[Comparison]:
    return _compared(
        {"lag": ways.default(lag=1), "none": ways.default()},
        _DEFAULT,
        repetitions,
        [Asked("default run, two workers; lag 1", "lag", "none", "lag 0", 1.15, _over_none)],
    )


def _lag_of_waiting(repetitions: int) -> list[Comparison]:
    wait_s = ways.calibrated_wait_s(ways.waiting(1, 0.0), 1.0)
    return _compared(
        {"lag": ways.waiting(1, wait_s, lag=1), "none": ways.waiting(1, wait_s)},
        _WAITING,
        repetitions,
        [Asked("waits, learns as long as it samples; lag 1", "lag", "none", "lag 0", 1.5, _over_none)],
    )


def _evaluation(repetitions: int) -> list[Comparison]:
    return _compared(
        {"beside": ways.default(every=1), "before": ways.default("evaluation", every=1)},
        _DEFAULT // 2,
        repetitions,
        [
            Asked(
                "default run, evaluated in each round",
                "beside",
                "before",
                "the evaluation first, then learners",
                predict=_over_barrier,
            )
        ],
    )


def _compared(
    trained_ways: Mapping[str, Way], rounds: int, repetitions: int, asked: Sequence[Asked]
) -> list[Comparison]:
    """Trains each way once in every repetition, one after another, and compares within repetitions."""
    runs: dict[str, list[Measured]] = {name: [] for name in trained_ways}
    for _ in range(repetitions):
        for name, way in trained_ways.items():
            runs[name].append(trained(way, rounds))
            print(f"        {name}: {1000 * runs[name][-1].median_s:,.0f} ms", file=sys.stderr, flush=True)
    return [_comparison(one, runs[one.own], runs[one.other]) for one in asked]


def _comparison(asked: Asked, own: Sequence[Measured], other: Sequence[Measured]) -> Comparison:
    pairs = list(zip(own, other, strict=True))
    return Comparison(
        name=asked.name,
        against=asked.against,
        ms=[1000 * each.median_s for each in own],
        ratios=[after.median_s / before.median_s for before, after in pairs],
        same_weights=len({each.sha256 for each in (*own, *other)}) == 1,
        predicted=statistics.median(asked.predict(*pair) for pair in pairs) if asked.predict else None,
        least=asked.least,
    )


def _over_whole(learners: int) -> Predict:
    """Of micro-batches, against their sums in one learner after the last sample."""
    return _over(learners, lambda samples, parts, rest: prediction.whole_s(samples, sum(parts) + rest, ways.SLOTS))


def _over_behind(learners: int) -> Predict:
    """Of micro-batches, against the same after the last sample."""
    return _over(learners, lambda samples, parts, rest: prediction.behind_s(samples, parts, rest, ways.SLOTS, learners))


def _over(learners: int, other_s: Callable[[list[float], list[float], float], float]) -> Predict:
    def ratio(own: Measured, _: Measured) -> float:
        rounds = zip(own.busy_s("sample"), own.busy_s("grad"), map(sum, own.busy_s("learn")), strict=True)
        return statistics.median(
            other_s(samples, parts, rest) / prediction.streamed_s(samples, parts, rest, ways.SLOTS, learners)
            for samples, parts, rest in rounds
        )

    return ratio


def _over_barrier(own: Measured, other: Measured) -> float:
    """Predict the ratio of an evaluation next to learners, by the tasks of rounds with waiting learners."""
    rounds = zip(other.busy_s("sample"), other.busy_s("evaluate"), other.busy_s("learn"), strict=True)
    return statistics.median(
        prediction.in_turn_s([*samples, *evaluations], learners, other.slots)
        / prediction.after_samples_s(samples, evaluations, learners, other.slots)
        for samples, evaluations, learners in rounds
    )


def _over_none(own: Measured, other: Measured) -> float:
    """Of a lag, by the tasks of the rounds without one."""
    rounds = zip(other.busy_s("sample"), other.busy_s("learn"), strict=True)
    return statistics.median(
        prediction.in_turn_s(samples, learners, other.slots) / prediction.beside_s(samples, learners, other.slots)
        for samples, learners in rounds
    )
