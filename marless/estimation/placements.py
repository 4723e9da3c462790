"""The planner's forecast before a run: the efficient placements and the one that it would choose."""

import dataclasses
from dataclasses import dataclass

from msgspec.structs import replace

from marless.coordinator.config.schema import Placement, RunConfig
from marless.coordinator.core.planning import next_placement
from marless.coordinator.placement import planner
from marless.coordinator.placement.placement_rules import RoundPlacement
from marless.coordinator.placement.planner import Forecast
from marless.coordinator.pricing.prices import load_prices
from marless.estimation.recording import BRIEF, Progress, record, unseen
from marless.estimation.rented_machine import INSTANCE, VCPUS
from marless.estimation.targets import Target
from marless.reports.text import money, placement_text, table


@dataclass(frozen=True)
class PlacementPlan:
    """`config` with the chosen placement in place of `auto`, the `target` that places groups so, and the Pareto front
    of placements by dollars and seconds of a round."""

    config: RunConfig
    target: Target
    choice: Forecast
    pareto_front: list[Forecast]

    def text(self) -> str:
        """Return a table of the placements, the chosen one marked, and when a machine would be cheaper."""
        others = [item for item in self.pareto_front if item.round_placement != self.choice.round_placement]
        forecasts = sorted([*others, self.choice], key=lambda item: item.dollars)
        rows = [
            (
                "->" if item.round_placement == self.choice.round_placement else "",
                placement_text(item.round_placement),
                money(item.dollars),
                money(item.compute + item.requests),
                money(item.storage + item.ledger),
                money(item.coordination),
                f"{1000 * item.seconds:,.0f} ms",
            )
            for item in forecasts
        ]
        hourly = float(load_prices(self.config.pricing.region).ec2[INSTANCE])
        share = planner.break_even(self.choice, hourly, VCPUS)
        verdict = f"above {share:.0%} utilisation" if share < 1 else "at no utilisation"
        header = ("", "placement", "$ a round", "functions", "storage", "coordination", "time")
        return f"{table(header, rows)}\na {INSTANCE} (${hourly:g}/h) would do the same work for less {verdict}"


def plan_placement(config: RunConfig, workers: int, target: Target, progress: Progress = unseen) -> PlacementPlan:
    """Plays a few rounds here, to which the planner fits the durations of tasks; raises `UserError` when they fail.
    Functions elsewhere also wait for storage, which the planner measures in the run."""
    recording = record(config, workers, BRIEF, progress)
    plan, state = target.plan(config, recording.plan.inputs), recording.state
    forecasts, limits = next_placement.usual_forecasts(plan, state), config.placement
    choice = planner.choose(forecasts, limits.deadline_s, limits.dollars_per_hour)
    return PlacementPlan(
        *with_placement(config, target, choice.round_placement), choice, planner.pareto_front(forecasts)
    )


def with_placement(config: RunConfig, target: Target, round_placement: RoundPlacement) -> tuple[RunConfig, Target]:
    """The configuration with `round_placement` in place of a rule that plans, and the target that packs groups so."""
    functions = config.functions
    for name, memory in round_placement.memory_mb.items():
        functions = replace(functions, **{name: replace(getattr(functions, name), memory_mb=memory)})
    placement = Placement(
        rule=round_placement.rule,
        pack=round_placement.rollouts_per_invocation,
        chain=round_placement.rounds,
        inline_objects=round_placement.inline_objects,
    )
    checkpoint_every = round_placement.checkpoint_every
    placed_config = replace(config, placement=placement, functions=functions, checkpoint_every=checkpoint_every)
    # Elsewhere than here a configured `balanced` leaves slots idle that cost.
    halves = target.backend.remote and bool(round_placement.packs)
    return placed_config, dataclasses.replace(target, halves=halves)
