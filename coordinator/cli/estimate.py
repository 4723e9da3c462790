"""marless estimate: the bill and the duration of a run, from a calibration of a few seconds."""

import dataclasses
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from coordinator import budget
from coordinator.cli import options as common
from coordinator.cli.calibration import Calibration, calibrate
from coordinator.cli.placements import plan_placement
from coordinator.cli.rehearsal import rehearse
from coordinator.cli.text import money, seconds, table
from coordinator.config import RunConfig, load
from coordinator.pricing.bill import Bill, Meter, bill
from coordinator.pricing.prices import load_prices
from coordinator.state import Plan, State

# A longer run is extrapolated from two of these lengths: what grows with the rounds grows evenly.
SHORT, LONG = 300, 600
# A window that no calibration fills; a rehearsal may, with returns that do not change, which are no decline.
LONGEST_WINDOW = 100

EXAMPLES = """examples:
  marless estimate my_run.toml
  marless estimate stop.rounds=2000 scaling.units=8"""


@dataclass(frozen=True)
class Estimate:
    """A run as it would end: rounds, training seconds, and what it would have used."""

    rounds: int
    seconds: float
    meter: Meter


def arguments(parser: ArgumentParser) -> None:
    common.configuration(parser)
    common.workers(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Measures a few rounds, then prints the bill of all of them."""
    config = load(*common.split(options.settings))
    planned = None
    if config.placement.rule == "auto":
        planned = plan_placement(config, options.workers)
        config = planned.config
    found = estimate(config, calibrate(_steady(config), options.workers), options.workers)
    cost = bill(found.meter, load_prices(config.pricing.region), config.pricing.architecture, config.pricing.storage)
    if options.json:
        result = {"rounds": found.rounds, "seconds": round(found.seconds, 1), "bill": cost}
        if planned:
            result["placements"] = planned.front
        print(msgspec.json.Encoder(decimal_format="number").encode(result).decode())
        return 0
    if planned:
        planned.show()
    _show(config, found, cost)
    return 0


def estimate(config: RunConfig, calibration: Calibration, workers: int) -> Estimate:
    """Works out the run; a target return is left aside, for nobody knows when it is met."""
    config = replace(_steady(config), stop=replace(config.stop, return_=None)).effective()
    plan = Plan("estimate", config, "", load_prices(config.pricing.region), 0)
    state = rehearse(_until(plan, LONG), calibration, workers)
    if state.round < LONG:
        return Estimate(state.round, state.seconds, state.meter)
    return _extrapolated(plan, rehearse(_until(plan, SHORT), calibration, workers), state)


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


def _show(config: RunConfig, found: Estimate, cost: Bill) -> None:
    rows = [
        (line.name, f"{float(line.quantity):,.6g}", line.unit, money(float(line.dollars)))
        for line in cost.lines
        if line.quantity
    ]
    print(table(("", "quantity", "unit", "dollars"), rows))
    print()
    print(f"{found.rounds:,} rounds, about {seconds(found.seconds)} of training on this machine")
    place = f"AWS Lambda ({cost.architecture}, {cost.region})"
    print(f"about {money(float(cost.total))}: what this would cost on {place}")
    if config.sharing.rule == "dynamic":
        print("without switching sharing on or off, which is not known beforehand")
    if config.stop.return_ is not None:
        print(f"less if a mean return of {config.stop.return_:g} is reached earlier")
