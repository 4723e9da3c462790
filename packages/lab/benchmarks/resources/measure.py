"""Measures all comparisons, round by round, and stores the record of a full measurement."""

import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from benchmarks import launch as processes
from benchmarks.comparisons.conditions import Measuring
from benchmarks.comparisons.measurement_record import Record
from benchmarks.resources import prediction, ways
from benchmarks.resources.launch import Measured, trained
from benchmarks.resources.prediction import Clock, Predicted, Resource, Round
from benchmarks.resources.record import FILE, Comparison, Ratio
from benchmarks.resources.ways import SLOTS, SPLIT, TRAJECTORIES, Way
from marless.infra.local.resources.elastic import ElasticCores

# The largest ratio of a step of 32 trajectories with nine slots to the same step with 32 slots.
_SLOWER = 1.05
# The duty for the bars.
_BAR_DUTY = 0.2
# Of the solver: trajectories for each core, and their duty. A part of a core is busy at low load, and actions wait at
# high load.
_LOADS = {"low": (1, 0.2), "high": (6, 0.5)}
_BARS = {"low": 1.3, "high": 1 / 1.02}
# Of this size it is measured how long the solver takes: a quarter of a second on one core. A tenth of it took as long
# on two cores as on one.
_PROBE = 640


@dataclass(frozen=True)
class Effort:
    """The duties, the rounds, and the means of an action that sleeps, and of one that computes on one core."""

    duties: tuple[float, ...]
    rounds: int
    action_s: float
    solution_s: float


QUICK = Effort((_BAR_DUTY,), 1, 0.03, 0.1)
FULL = Effort((0.1, _BAR_DUTY, 0.3, 0.5), 5, 0.06, 0.25)


@dataclass(frozen=True)
class Timed:
    """A way as it was measured and predicted."""

    measured: Measured
    predicted: Predicted


Predict = Callable[[list[list[Round]]], Predicted]


def table(effort: Effort) -> str:
    """Measure. Returns the table as markdown, and the place of the measurement. A full one is stored."""
    measuring = Measuring()
    comparisons = [each for duty in effort.duties for each in _one_run(effort, duty)]
    comparisons += [*_several_runs(effort), *_elastic(effort)]
    measured = Record(**msgspec.structs.asdict(measuring.conditions()), comparisons=comparisons)
    if effort is FULL:
        FILE.write(measured)
    return FILE.text(measured)


def _one_run(effort: Effort, duty: float) -> list[Comparison]:
    """Slots for all trajectories, fewer for all actions, and as few reserved for trajectories."""
    asks = duty, effort.action_s
    own, every, reserved = (
        _timed(effort, ways.sleeping(*asks, SLOTS), _shared(SLOTS)),
        _timed(effort, ways.sleeping(*asks, TRAJECTORIES), _shared(TRAJECTORIES)),
        _timed(
            effort,
            ways.sleeping(*asks, SLOTS, reserved=SLOTS),
            lambda drawn: prediction.reserved(drawn[0], SLOTS),
        ),
    )
    name = f"{SLOTS} slots, by the action; duty {duty}"
    has_bars = duty == _BAR_DUTY
    return [
        _comparison(
            name, own, f"{TRAJECTORIES} slots, one per trajectory", every, rounds=1 / _SLOWER if has_bars else None
        ),
        _comparison(
            name,
            own,
            f"{SLOTS} slots, reserved by the trajectory",
            reserved,
            actions=4.3 if has_bars else None,
            rounds=1.5 if has_bars else None,
        ),
    ]


def _several_runs(effort: Effort) -> list[Comparison]:
    """The same trajectories of four runs, and slots for all of them or for each run."""
    asks = _BAR_DUTY, effort.action_s
    own = _timed(effort, ways.several(*asks, (SLOTS,)), _shared(SLOTS))
    split = _timed(effort, ways.several(*asks, SPLIT), lambda drawn: prediction.split(drawn, SPLIT))
    name = f"{SLOTS} slots for {ways.RUNS} runs, by the action; duty {_BAR_DUTY}"
    return [_comparison(name, own, f"a pool per run, of {' + '.join(map(str, SPLIT))} slots", split)]


def _elastic(effort: Effort) -> list[Comparison]:
    """A solver that computes, on one core for each action or on idle cores."""
    cores = len(os.sched_getaffinity(0))
    taken_s: list[float] = processes.measured("resources.speed_up", _PROBE, cores)
    size = _PROBE * effort.solution_s / taken_s[0]

    def seconds(of: float, used: int) -> float:
        return of / _PROBE * taken_s[used - 1]

    def served(elastic: bool) -> Predict:
        return lambda drawn: prediction.shared(
            drawn,
            lambda clock: Resource(clock, cores, seconds, cores, ElasticCores(1, cores, cores) if elastic else None),
        )

    comparisons = []
    for load, (per_core, duty) in _LOADS.items():
        asks = per_core * cores, duty, effort.solution_s, size, cores
        own = _timed(effort, ways.solving(*asks, most=cores), served(elastic=True))
        fixed = _timed(effort, ways.solving(*asks, most=1), served(elastic=False))
        name = f"a solver on 1 to {cores} cores; {load} load, {per_core * duty:.1f}"
        comparisons.append(_comparison(name, own, "one core for each action", fixed, actions=_BARS[load]))
    return comparisons


def _shared(slots: int) -> Predict:
    return lambda drawn: prediction.shared(drawn, lambda clock: _slots(clock, slots))


def _slots(clock: Clock, slots: int) -> Resource:
    return Resource(clock, slots)


def _timed(effort: Effort, way: Way, predict: Predict) -> Timed:
    measured = trained(way, effort.rounds)
    timed = Timed(measured, predict(measured.drawn()))
    action_s, round_s = (statistics.mean(each) for each in (measured.actions_s(), measured.rounds_s()))
    said = f"{1000 * action_s:,.0f} ms ({1000 * timed.predicted.action_s:,.0f} predicted)"
    said += f", a round {round_s:.2f} s ({timed.predicted.round_s:.2f})"
    print(f"        {', '.join(way.tables)}: {said}", file=sys.stderr, flush=True)
    return timed


def _comparison(
    name: str, own: Timed, against: str, other: Timed, actions: float | None = None, rounds: float | None = None
) -> Comparison:
    """`actions` and `rounds` bound the ratios of the other's times to the own ones."""
    return Comparison(
        name=name,
        against=against,
        action_ms=1000 * statistics.mean(own.measured.actions_s()),
        actions=Ratio(
            values=_ratios(own.measured.actions_s(), other.measured.actions_s()),
            predicted=other.predicted.action_s / own.predicted.action_s,
            least=actions,
        ),
        rounds=Ratio(
            values=_ratios(own.measured.rounds_s(), other.measured.rounds_s()),
            predicted=other.predicted.round_s / own.predicted.round_s,
            least=rounds,
        ),
    )


def _ratios(own: Sequence[float], other: Sequence[float]) -> list[float]:
    return [after / before for before, after in zip(own, other, strict=True)]
