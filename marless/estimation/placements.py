"""The planner's forecast before a run: the efficient placements and the one that it would choose."""

import dataclasses
from dataclasses import dataclass

from msgspec.structs import replace

from marless.coordinator.config.schema import Placement, RunConfig
from marless.coordinator.core.planning import next_placement
from marless.coordinator.placement import planner
from marless.coordinator.placement.placement_rules import RoundPlacement
from marless.coordinator.placement.planner import Forecast
from marless.estimation.recording import BRIEF, Progress, record, unseen
from marless.estimation.targets import Target


@dataclass(frozen=True)
class PlacementPlan:
    """`config` with the chosen placement in place of `auto`, the `target` that places groups so, and the placements'
    Pareto front by dollars and seconds of a round. `slots`: of each of them, the most functions at once."""

    config: RunConfig
    target: Target
    choice: Forecast
    pareto_front: list[Forecast]
    slots: list[int]


def plan_placement(config: RunConfig, workers: int, target: Target, progress: Progress = unseen) -> PlacementPlan:
    """Plays a few rounds here and fits the durations of tasks for the planner. Raises `UserError` if they fail.
    Functions elsewhere also wait for storage, which the planner measures in the run."""
    recording = record(config, workers, BRIEF, progress)
    plan, state = target.plan(config, recording.plan.inputs), recording.state
    layout = next_placement.usual_layout(plan, state)
    forecasts = planner.forecasts(layout, state.timings, next_placement.terms(plan, state))
    choice, front = planner.choose(forecasts), planner.pareto_front(forecasts)
    slots = [max(layout.waves(item.round_placement)) for item in front]
    return PlacementPlan(*with_placement(config, target, choice.round_placement), choice, front, slots)


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
