"""The placement rule `auto`: forecasts cost and duration of every placement of a round, and chooses one.

Pure arithmetic over list prices and the measured `marless.coordinator.placement.timings` of the run, so two equal runs
may place a round differently, with the same weights. Functions count as warm, and evaluations are left out: no
placement changes them. The coordinator's part of every wave is in `marless.coordinator.placement.coordination_cost`.
Memory buys a share of a vCPU, see `bill.billed_ms`. Less than a whole vCPU slows a task down, but more gives no speed,
because functions use one thread.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from marless.coordinator.placement.candidates import PlannerLimits, is_possible, options, update_rounds
from marless.coordinator.placement.layout import Layout, RoundWorkload
from marless.coordinator.placement.list_price import Parts
from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS, PACKED, RoundPlacement
from marless.coordinator.placement.timings import Fit, is_measured, milliseconds, span
from marless.coordinator.pricing.bill import Meter
from marless.functions.function_specs import PLACED

# How often a coordinator that holds inlined objects is lost: an assumption.
LOSSES_PER_ROUND = 1e-3
# Forecasts within this relative difference count as equal, and the other quantity decides.
TOLERANCE = 0.01
# The current placement changes only for a larger saving.
WORTHWHILE = 0.05
# The longest expected duration of a task, as a share of its time-out.
PATIENCE = 0.5
# Actors of the first round.
EXPLORERS = 8
# Fewer kinds of invocations first, for exactly equal forecasts.
SIMPLEST = tuple(reversed(LEARNER_PLACEMENTS))


class Unmeasured(Exception):
    """No measured task determines the duration of a kind of task. The message names the kind."""


@dataclass(frozen=True)
class Forecast:
    """A placement with the cost and duration of a round: `dollars` is the sum of the four parts below it and of
    `coordination`.

    `seconds` is the wall clock, `busy_s` the sum over all tasks on whole cores. `longest_s` is the longest task by
    function. The dollars of a checkpoint are spread over its rounds. With inlined objects this includes the dollars of
    rounds repeated after a loss.
    """

    round_placement: RoundPlacement
    dollars: float
    seconds: float
    compute: float
    requests: float
    storage: float
    ledger: float
    busy_s: float
    longest_s: Mapping[str, float]
    coordination: float = 0.0


class _Estimate(NamedTuple):
    """Dollars and seconds of one task of `whole`, or of one round, and dollars of one checkpoint."""

    once: Parts
    checkpoint: Parts
    coordination: float
    seconds: float
    busy_s: float
    longest_s: dict[str, float]


def plan(
    round_: int, layout: Layout, timings: Mapping[str, Fit], terms: PlannerLimits, current: RoundPlacement | None = None
) -> RoundPlacement:
    """Return the placement of round `round_`.

    The first two rounds explore. The others follow `choose`, unless that saves too little over the `current` placement.
    An exploration that would come near its time-out is skipped.
    """
    exploring = explore(round_, layout.workload, terms)
    if not is_measured(layout.workload, timings):
        return exploring
    if round_ < 2 and _within_timeouts(forecast(exploring, layout, timings, terms), terms):
        return exploring
    best = choose(forecasts(layout, timings, terms))
    current = current and update_rounds(current, layout, terms)
    if current is None or not is_possible(current, layout, terms):
        return best.round_placement
    now = forecast(current, layout, timings, terms)
    is_worthwhile = best.dollars < (1 - WORTHWHILE) * now.dollars
    return current if _within_timeouts(now, terms) and not is_worthwhile else best.round_placement


def forecasts(layout: Layout, timings: Mapping[str, Fit], terms: PlannerLimits) -> list[Forecast]:
    """Return forecasts of all candidates. Those near a time-out count only if all are near. Raises `Unmeasured`."""
    items = [forecast(one, layout, timings, terms) for one in options(layout, terms)]
    return [item for item in items if _within_timeouts(item, terms)] or items


def explore(round_: int, workload: RoundWorkload, terms: PlannerLimits) -> RoundPlacement:
    """Return a placement before there are timings: a few actors, then one, to separate overhead from work.

    One actor per rollout would measure more precisely and cost more than most runs save.
    """
    spread = workload.rollouts if workload.opponent_reads is not None else EXPLORERS if round_ == 0 else 1
    return RoundPlacement(
        rule=PACKED,
        rollouts_per_invocation=-(-workload.rollouts // spread),
        checkpoint_every=terms.checkpoint_every,
        memory_mb={name: terms.memory_mb[name] for name in PLACED},
    )


def pareto_front(forecasts: Iterable[Forecast]) -> list[Forecast]:
    """Return the Pareto front of the forecasts in dollars and seconds, cheapest first."""
    front: list[Forecast] = []
    for candidate in sorted(forecasts, key=lambda item: (item.dollars, item.seconds)):
        equal = bool(front) and (candidate.dollars, candidate.seconds) == (front[-1].dollars, front[-1].seconds)
        if not front or equal or candidate.seconds < front[-1].seconds:
            front.append(candidate)
    return front


def choose(forecasts: Sequence[Forecast]) -> Forecast:
    """Return the fastest of the cheapest forecasts, and the simplest of these.

    Forecasts that differ by less than `TOLERANCE` count as equally cheap.
    """
    limit = min(item.dollars for item in forecasts) * (1 + TOLERANCE)
    cheapest = [item for item in forecasts if item.dollars <= limit]
    return min(cheapest, key=lambda item: (item.seconds, item.dollars, _complexity(item.round_placement)))


_NOTHING = Meter()


def _complexity(round_placement: RoundPlacement) -> tuple[int, bool, int, int, int]:
    rule = SIMPLEST.index(round_placement.rule)
    return (
        rule,
        round_placement.inline_objects,
        round_placement.rounds,
        -round_placement.rollouts_per_invocation,
        sum(round_placement.memory_mb.values()),
    )


def _within_timeouts(item: Forecast, terms: PlannerLimits) -> bool:
    return all(longest <= PATIENCE * terms.timeout_s[name] for name, longest in item.longest_s.items())


def forecast(
    round_placement: RoundPlacement, layout: Layout, timings: Mapping[str, Fit], terms: PlannerLimits
) -> Forecast:
    """Cost and duration of a round of `round_placement`, which names the memory of every function it uses.

    Raises `Unmeasured`.
    """
    estimate = _estimate(round_placement, layout, timings, terms)
    # After a loss half a checkpoint interval is repeated, on average.
    repeats = 1 + LOSSES_PER_ROUND * round_placement.checkpoint_every / 2 if round_placement.inline_objects else 1.0
    share, every = repeats / round_placement.rounds_per_task, round_placement.checkpoint_every
    parts = Parts(
        *(share * once + saving / every for once, saving in zip(estimate.once, estimate.checkpoint, strict=True))
    )
    coordination = parts.beside + share * estimate.coordination
    return Forecast(
        round_placement=round_placement,
        dollars=parts.compute + parts.requests + parts.storage + parts.ledger + coordination,
        seconds=estimate.seconds / round_placement.rounds_per_task,
        compute=parts.compute,
        requests=parts.requests,
        storage=parts.storage,
        ledger=parts.ledger,
        busy_s=estimate.busy_s / round_placement.rounds_per_task,
        longest_s=estimate.longest_s,
        coordination=coordination,
    )


def _estimate(
    round_placement: RoundPlacement, layout: Layout, timings: Mapping[str, Fit], terms: PlannerLimits
) -> _Estimate:
    tariff, coordination_cost = terms.tariff, terms.coordination_cost
    busy = 0.0
    mb_ms = 0
    longest: dict[str, float] = {}
    gates = []
    for tasks, after in layout.gates(round_placement):
        timed_tasks = []
        for task in tasks:
            core_ms = milliseconds(task.kind, task.size, layout.workload, timings, round_placement.style)
            if core_ms is None:
                raise Unmeasured(task.kind)
            memory = round_placement.memory_mb[task.function]
            ms = core_ms * max(1.0, tariff.mb_per_vcpu / memory)
            timed_tasks.append((ms, task.number))
            busy += task.number * core_ms / 1000
            mb_ms += task.number * memory * math.ceil(ms)
            longest[task.function] = max(longest.get(task.function, 0.0), ms / 1000)
        gates.append((timed_tasks, after))
    return _Estimate(
        once=tariff.parts(layout.operations(round_placement))._replace(compute=tariff.seconds(mb_ms)),
        checkpoint=tariff.parts(layout.checkpointing(round_placement)),
        coordination=_coordination(round_placement, layout, terms),
        seconds=_critical_path_s(gates, layout.workload.width, coordination_cost.wave_s),
        busy_s=busy,
        longest_s=longest,
    )


def _critical_path_s(gates: list[tuple[list[tuple[float, int]], tuple[int, ...]]], width: int, wave_s: float) -> float:
    """Return the seconds of a round of gates of (milliseconds, count) tasks, each with the positions of earlier gates.

    A gate begins when its earlier gates have ended and `width` slots have had time for all work up to it. The round
    also ends only after `width` slots have had time for all its work.
    """
    ends, before = list[float](), list[set[int]]()
    work_s = [sum(ms * number for ms, number in tasks) / width / 1000 for tasks, _ in gates]
    for tasks, after in gates:
        before.append({*after}.union(*(before[number] for number in after)))
        start_s = max((ends[number] for number in after), default=0.0)
        start_s = max(start_s, sum(work_s[number] for number in before[-1]))
        ends.append(start_s + wave_s + span(tasks, width) / 1000)
    return max(*ends, wave_s + sum(work_s))


def _coordination(round_placement: RoundPlacement, layout: Layout, terms: PlannerLimits) -> float:
    tariff, coordination_cost = terms.tariff, terms.coordination_cost
    meters = [coordination_cost.wave_meter(tasks) for tasks in layout.waves(round_placement)]
    transfer = Meter(bytes_out=round(layout.answers_bytes(round_placement)) if coordination_cost.outside else 0)
    events = layout.events(round_placement) if coordination_cost.detached else Meter()
    lines = round_placement.rounds_per_task * sum(tariff.parts(coordination_cost.line))
    return lines + sum(sum(tariff.parts(meter)) for meter in (transfer, events, *meters) if meter != _NOTHING)
