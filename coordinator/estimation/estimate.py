"""What a run would cost and how long it would take, from a calibration of a few seconds."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from coordinator.backends import registry
from coordinator.config.schema import RANDOM, RunConfig
from coordinator.core import budget
from coordinator.core.state import Plan, State
from coordinator.estimation.calibration import Calibration, calibrate
from coordinator.estimation.placements import Planned, plan_placement
from coordinator.estimation.targets import Target
from coordinator.placement.rules import PLACEMENTS
from coordinator.pricing.bill import Bill, Meter

# A longer run is extrapolated from two of these lengths: what grows with the rounds grows evenly.
SHORT, LONG = 300, 600
# A window that no calibration fills; a rehearsal may, with returns that do not change, which are no decline.
LONGEST_WINDOW = 100


@dataclass(frozen=True)
class Estimate:
    """A run as it would end: rounds, training seconds, and what it would have used."""

    rounds: int
    seconds: float
    meter: Meter


@dataclass(frozen=True)
class Estimates:
    """The run on the target and, for comparison, on this machine; with the placements that rule `auto` looked at."""

    config: RunConfig
    entries: list[tuple[Target, Estimate, Bill]]
    """The target's first."""
    planned: Planned | None


def estimate_run(config: RunConfig, target: Target, workers: int) -> Estimates:
    """Plays a few rounds on this machine and works out the rest."""
    # What opponents do costs next to nothing, and nobody learns it.
    config = replace(config, opponents=replace(config.opponents, policies=RANDOM))
    if target.detached:
        config = replace(config, placement=replace(config.placement, inline_objects=False))
    planned = None
    if PLACEMENTS[config.placement.rule].planned:
        planned = plan_placement(config, workers, target)
        config = planned.config
    calibration = calibrate(_steady(config), workers)
    targets = dict.fromkeys((target, Target(registry.backend(registry.DEFAULT), workers)))
    return Estimates(config, [(place, *estimate(config, calibration, place)) for place in targets], planned)


def estimate(config: RunConfig, calibration: Calibration, target: Target) -> tuple[Estimate, Bill]:
    """Works out the run and its bill; a target return is left aside, for nobody knows when it is met."""
    config = replace(_steady(config), stop=replace(config.stop, return_=None)).effective()
    plan = target.plan(config)
    state = target.rehearse(_until(plan, LONG), calibration)
    found = Estimate(state.round, state.seconds, state.meter)
    if state.round >= LONG:
        found = _extrapolated(plan, target.rehearse(_until(plan, SHORT), calibration), state)
    return found, target.bill(plan, found.meter)


def _steady(config: RunConfig) -> RunConfig:
    """The configuration without switches of sharing: nobody knows beforehand when training will decline."""
    return replace(config, trend=replace(config.trend, rule="significant", window=LONGEST_WINDOW))


def _until(plan: Plan, rounds: int) -> Plan:
    """The plan with at most so many rounds."""
    stop = plan.config.stop
    shorter = replace(stop, rounds=rounds if stop.rounds is None else min(rounds, stop.rounds))
    return dataclasses.replace(plan, config=replace(plan.config, stop=shorter))


def _extrapolated(plan: Plan, short: State, long: State) -> Estimate:
    """The run at its nearest limit, in a straight line through two shorter ones."""
    stop, span = plan.config.stop, long.round - short.round
    paid = [float(budget.dollars(plan, state.meter)) for state in (short, long)]
    lines = (
        (stop.rounds, short.round, long.round),
        (stop.env_steps, short.env_steps, long.env_steps),
        (stop.seconds, short.seconds, long.seconds),
        (stop.dollars, paid[0], paid[1]),
    )
    lengths = [(limit - low) / (high - low) for limit, low, high in lines if limit is not None]
    share = max(1.0, min(lengths))
    return Estimate(
        rounds=short.round + round(share * span),
        seconds=short.seconds + share * (long.seconds - short.seconds),
        meter=_between(short.meter, long.meter, share),
    )


def _between(low: Any, high: Any, share: float) -> Any:
    """`low` + `share` of the way to `high`, field by field."""
    if isinstance(low, int):
        return round(low + share * (high - low))
    names = low.__struct_fields__
    return type(low)(**{name: _between(getattr(low, name), getattr(high, name), share) for name in names})
