"""Estimates the cost and duration of a run: a few rounds are recorded here, and a forecast plays on with them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from marless.backends import registry
from marless.coordinator.config.defaults import placed_in_cloud
from marless.coordinator.config.schema import RANDOM, Pipeline, RunConfig, Stop
from marless.coordinator.core import budget
from marless.coordinator.core.state import Plan, State
from marless.coordinator.placement.placement_rules import FUSED, PLACEMENTS
from marless.coordinator.pricing.bill import Bill, Meter, total
from marless.estimation.placements import PlacementPlan, plan_placement
from marless.estimation.recording import BRIEF, Progress, Recording, record, unseen, without_switches
from marless.estimation.targets import Target
from marless.functions.function_specs import NAMES
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.section import Section
from marless.reports.text import counted, money, seconds

# A longer run is extrapolated from these two lengths: cost and time grow linearly with the rounds.
SHORT, LONG = 300, 600
# The two rounds that measure a lag. The first rounds start functions.
_COMPARED = (10, 50)
# Evaluations during training are of two blocks of the evaluator at most: longer ones take as long in proportion.
_EPISODES = 320


@dataclass(frozen=True, repr=False)
class Estimate(ShownResult):
    """The estimated end of a run: its rounds, its seconds of training, the amounts that it used (`meter`), and the
    lines of its bill. `ending_dollars` are the dollars of the evaluations that end it."""

    rounds: int
    seconds: float
    meter: Meter
    bill: Bill
    ending_dollars: float

    @property
    def dollars(self) -> float:
        """The bill's total."""
        return float(self.bill.total)

    @property
    def headline(self) -> str:
        """Return the rounds, seconds and dollars of the run."""
        time = f"{counted(self.rounds, 'round')}, about {seconds(self.seconds)} of training"
        return f"{time}, {money(self.dollars)} on AWS Lambda"

    @property
    def sections(self) -> list[Section]:
        """Return the table of the bill."""
        return [bill_section({"quantity": self.bill})]


@dataclass(frozen=True)
class Estimates:
    """The run on the target and, for comparison, on this machine. `planned` are the placements of the rule `auto`.

    `lagged` is a round's duration with `pipeline.lag=1` as a share of the target's, or None if the lag is set or
    impossible. `waiting_dollars` is the cost of functions on the target while they wait for resources.
    """

    config: RunConfig
    entries: list[tuple[Target, Estimate]]
    """The target's first."""
    planned: PlacementPlan | None
    lagged: float | None
    waiting_dollars: float = 0.0


def bill_section(bills: Mapping[str, Bill]) -> Section:
    """Put bills side by side, line by line, without the lines that are empty in all bills."""
    rows = []
    for lines in zip(*(bill.lines for bill in bills.values()), strict=True):
        if any(line.quantity for line in lines):
            cells = [(f"{float(line.quantity):,.6g}", money(float(line.dollars))) for line in lines]
            rows.append((lines[0].name, lines[0].unit, *(cell for pair in cells for cell in pair)))
    totals = [cell for bill in bills.values() for cell in ("", money(float(bill.total)))]
    header = [cell for name in bills for cell in (name, "dollars")]
    return Section("", ("", "unit", *header), (*rows, ("total", "", *totals)))


def estimate_run(config: RunConfig, target: Target, workers: int, progress: Progress = unseen) -> Estimates:
    """Play a few rounds on this machine, and forecast the run from them."""
    # The opponents' policies hardly change the cost.
    config = replace(config, opponents=replace(config.opponents, policies=RANDOM))
    if target.backend.remote:
        config = placed_in_cloud(config)
    if target.detached:
        config = replace(config, placement=replace(config.placement, inline_objects=False))
    placement_plan = None
    if PLACEMENTS[config.placement.rule].planned:
        placement_plan = plan_placement(config, workers, target, progress)
        config, target = placement_plan.config, placement_plan.target
    recording = record_briefly(config_for_recording(target, config), workers, progress)
    progress("forecasting the run from the measured rounds")
    targets = dict.fromkeys((target, Target(registry.backend(registry.DEFAULT), workers)))
    entries = [(place, estimate(config, recording, place)) for place in targets]
    waiting = waiting_dollars(config, recording, target, entries[0][1]) if config.resources else 0.0
    return Estimates(
        _sized(config, recording), entries, placement_plan, share_with_lag(config, recording, target), waiting
    )


def config_for_recording(target: Target, config: RunConfig) -> RunConfig:
    """The configuration to play here: for a target elsewhere a learner of `balanced` has one group, like with a slot
    for each. Where it has several or half of one there, it is forecast to take as long in proportion."""
    if not (target.backend.remote and PLACEMENTS[config.placement.rule].balances):
        return config
    return replace(config, placement=replace(config.placement, rule=FUSED))


def record_briefly(config: RunConfig, workers: int, progress: Progress = unseen) -> Recording:
    """Plays a few rounds of `config` here, with an evaluation. Raises `UserError` if they fail."""
    evaluation, placement = config.evaluation, config.placement
    # The first invocation warms up, so at least two are needed.
    together = min(placement.chain, BRIEF.most // 2)
    every = max(2, together)
    sizes = config.evaluation_sizes(horizon=1)  # the most episodes: the real horizon is still unknown
    episodes = min(_EPISODES, max(sizes.episodes, sizes.final))
    short = replace(
        _steady(config),
        evaluation=replace(evaluation, every=every, episodes=episodes, final_episodes=episodes),
        # The bytes of objects in messages are recorded where they are stored.
        placement=replace(placement, chain=together, inline_objects=False),
    )
    return record(short, workers, BRIEF._replace(least=every + 1), progress)


def estimate(
    config: RunConfig,
    recording: Recording,
    target: Target,
    seed: int = 0,
    lengths: tuple[int, int] = (SHORT, LONG),
) -> Estimate:
    """Estimates the run and its bill without a target return, since the round that meets it is unknown.

    A longer run than `lengths` is extrapolated from runs of these two numbers of rounds.

    Raises `UserError` where the run would fail.
    """
    config = _sized(replace(_steady(config), stop=replace(config.stop, return_=None)).effective(), recording)
    plan = target.plan(config, recording.plan.inputs)
    short, long = lengths
    state = target.forecast(_limit_rounds(plan, long), recording, seed)
    if state.round >= long:
        return _extrapolate(plan, target.forecast(_limit_rounds(plan, short), recording, seed), state)
    bill = budget.bill_of(plan, state.meter)
    return Estimate(state.round, state.seconds, state.meter, bill, _ending_dollars(bill, state))


def waiting_dollars(config: RunConfig, recording: Recording, target: Target, run_estimate: Estimate) -> float:
    """Return the cost of waiting for resources in the estimated run: the dollars saved if every answer were there at
    once."""
    instant = estimate(config, recording.without_waiting(), target)
    return float(_compute_dollars(run_estimate) - _compute_dollars(instant))


def _compute_dollars(run_estimate: Estimate) -> Decimal:
    names = {f"{name} compute" for name in NAMES}
    return total(line for line in run_estimate.bill.lines if line.name in names)


def share_with_lag(config: RunConfig, recording: Recording, target: Target) -> float | None:
    """The duration of a round with a lag of one round, as a share of its duration without. See `Estimates.lagged`."""
    if config.pipeline != Pipeline() or PLACEMENTS[config.placement.rule].one_function:
        return None

    def round_s(lag: int) -> float:
        """Seconds of a round, after the rounds that start functions."""
        pipeline = Pipeline(lag=lag)
        first_s, last_s = (
            _seconds(replace(_steady(config), pipeline=pipeline), recording, target, n) for n in _COMPARED
        )
        return (last_s - first_s) / (_COMPARED[1] - _COMPARED[0])

    return round_s(1) / round_s(0)


def _seconds(config: RunConfig, recording: Recording, target: Target, rounds: int) -> float:
    plan = target.plan(replace(config, stop=Stop(rounds=rounds)), recording.plan.inputs)
    return target.forecast(plan, recording).lines[-1].seconds


def _steady(config: RunConfig) -> RunConfig:
    return replace(config, sharing=without_switches(config.sharing))


def _sized(config: RunConfig, recording: Recording) -> RunConfig:
    """The configuration with the size of its final evaluation, which shorter runs then have, too."""
    final = config.evaluation_sizes(recording.state.env_spec.horizon).final
    return replace(config, evaluation=replace(config.evaluation, final_episodes=final))


def _limit_rounds(plan: Plan, rounds: int) -> Plan:
    stop = plan.config.stop
    shorter = replace(stop, rounds=rounds if stop.rounds is None else min(rounds, stop.rounds))
    return dataclasses.replace(plan, config=replace(plan.config, stop=shorter))


def _extrapolate(plan: Plan, short: State, long: State) -> Estimate:
    stop, span = plan.config.stop, long.round - short.round
    dollars = [float(budget.dollars(plan, state.meter)) for state in (short, long)]
    lines = (
        (stop.rounds, short.round, long.round),
        (stop.env_steps, short.env_steps, long.env_steps),
        (stop.seconds, short.seconds, long.seconds),
        (stop.dollars, dollars[0], dollars[1]),
    )
    share = max(1.0, min((limit - low) / (high - low) for limit, low, high in lines if limit is not None))
    meter = _interpolate(short.meter, long.meter, share)
    return Estimate(
        rounds=short.round + round(share * span),
        seconds=short.seconds + share * (long.seconds - short.seconds),
        meter=meter,
        bill=budget.bill_of(plan, meter),
        ending_dollars=_ending_dollars(budget.bill_of(plan, long.meter), long),
    )


def _ending_dollars(bill: Bill, state: State) -> float:
    return float(bill.total) - (state.lines[-1].dollars if state.lines else 0.0)


def _interpolate(low: Any, high: Any, share: float) -> Any:
    if isinstance(low, int):
        return round(low + share * (high - low))
    if isinstance(high, dict):  # a part that one of the two lacks is zero there
        return {key: _interpolate(low.get(key, type(value)()), value, share) for key, value in high.items()}
    names = low.__struct_fields__
    return type(low)(**{name: _interpolate(getattr(low, name), getattr(high, name), share) for name in names})
