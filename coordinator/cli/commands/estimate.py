"""marless estimate: the bill and the duration of a run, from a calibration of a few seconds."""

import dataclasses
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from coordinator.backends import registry
from coordinator.cli import arguments as common
from coordinator.config.schema import RANDOM, RunConfig, load
from coordinator.core import budget
from coordinator.core.state import Plan, State
from coordinator.errors import UserError
from coordinator.estimation.calibration import Calibration, calibrate
from coordinator.estimation.placements import plan_placement
from coordinator.estimation.targets import Target
from coordinator.pricing.bill import Bill, Meter
from coordinator.reports.text import money, seconds, table

# A longer run is extrapolated from two of these lengths: what grows with the rounds grows evenly.
SHORT, LONG = 300, 600
# A window that no calibration fills; a rehearsal may, with returns that do not change, which are no decline.
LONGEST_WINDOW = 100

# Functions that an account may run at once unless AWS was asked for more (Lambda developer guide, "Lambda quotas").
CONCURRENCY = 1000

EXAMPLES = """examples:
  marless estimate my_run.toml
  marless estimate stop.rounds=2000 scaling.rollouts=8
  marless estimate my_run.toml --backend aws --detach"""


@dataclass(frozen=True)
class Estimate:
    """A run as it would end: rounds, training seconds, and what it would have used."""

    rounds: int
    seconds: float
    meter: Meter


def arguments(parser: ArgumentParser) -> None:
    """What `marless estimate` takes."""
    common.configuration(parser)
    parser.add_argument(
        "--backend",
        choices=registry.names(),
        default=registry.DEFAULT,
        help="where it would run (default: %(default)s)",
    )
    common.detach(parser)
    parser.add_argument(
        "--concurrency",
        type=common.count,
        default=CONCURRENCY,
        metavar="N",
        help="functions that the account may run at once (default: %(default)s)",
    )
    common.workers(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Measures a few rounds here, then prints the bill of all of them, there and here."""
    target = _target(options)
    config = load(*common.split(options.settings))
    # What opponents do costs next to nothing, and nobody learns it.
    config = replace(config, opponents=replace(config.opponents, policies=RANDOM))
    if target.detached:
        config = replace(config, placement=replace(config.placement, inline_objects=False))
    planned = None
    if config.placement.rule == "auto":
        planned = plan_placement(config, options.workers, target)
        config = planned.config
    calibration, here = (
        calibrate(_steady(config), options.workers),
        Target(registry.backend(registry.DEFAULT), options.workers),
    )
    targets = [target] if options.json else dict.fromkeys((target, here))
    found = [(item, *estimate(config, calibration, item)) for item in targets]
    if options.json:
        _, spent, cost = found[0]
        result = {"rounds": spent.rounds, "seconds": round(spent.seconds, 1), "bill": cost}
        if planned:
            result["placements"] = planned.front
        print(msgspec.json.Encoder(decimal_format="number").encode(result).decode())
        return 0
    if planned:
        planned.show()
    _show(config, found)
    return 0


def estimate(config: RunConfig, calibration: Calibration, target: Target) -> tuple[Estimate, Bill]:
    """Works out the run and its bill; a target return is left aside, for nobody knows when it is met."""
    config = replace(_steady(config), stop=replace(config.stop, return_=None)).effective()
    plan = target.plan(config)
    state = target.rehearse(_until(plan, LONG), calibration)
    found = Estimate(state.round, state.seconds, state.meter)
    if state.round >= LONG:
        found = _extrapolated(plan, target.rehearse(_until(plan, SHORT), calibration), state)
    return found, target.bill(plan, found.meter)


def _target(options: Namespace) -> Target:
    target = registry.backend(options.backend)
    if options.detach and not target.remote:
        remote = " or ".join(registry.remote_names())
        raise UserError(f"--detach needs --backend {remote}: on this machine somebody has to drive the run")
    return Target(target, options.workers if target.runs_here else options.concurrency, options.detach)


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


def _show(config: RunConfig, found: list[tuple[Target, Estimate, Bill]]) -> None:
    print(_compared([(target.name, cost) for target, _, cost in found]))
    print()
    for target, spent, _ in found:
        where = (
            "on this machine" if not target.backend.remote else f"({target.name}, {target.width:,} functions at once)"
        )
        print(f"{spent.rounds:,} rounds, about {seconds(spent.seconds)} of training {where}")
    _, _, cost = found[0]
    print(f"about {money(float(cost.total))}: what this would cost on AWS Lambda ({cost.architecture}, {cost.region})")
    if config.sharing.rule == "dynamic":
        print("without switching sharing on or off, which is not known beforehand")
    if config.stop.return_ is not None:
        print(f"less if a mean return of {config.stop.return_:g} is reached earlier")


def _compared(bills: list[tuple[str, Bill]]) -> str:
    """Bills side by side, line by line; lines that are empty in all of them are left out."""
    rows = []
    for lines in zip(*(cost.lines for _, cost in bills), strict=True):
        if any(line.quantity for line in lines):
            cells = [(f"{float(line.quantity):,.6g}", money(float(line.dollars))) for line in lines]
            rows.append((lines[0].name, lines[0].unit, *(cell for pair in cells for cell in pair)))
    totals = [cell for _, cost in bills for cell in ("", money(float(cost.total)))]
    header = [cell for name, _ in bills for cell in (name if len(bills) > 1 else "quantity", "dollars")]
    return table(("", "unit", *header), [*rows, ("total", "", *totals)])
