"""The tasks of the phase in flight, worked out from plan and state alone."""

from dataclasses import dataclass
from typing import Any

import msgspec

from coordinator.placement import LEARNER_PLACEMENTS, Work, packs
from coordinator.scaling import SCALING_RULES
from coordinator.state import Plan, State
from functions import keys
from functions.algorithms.base import AlgorithmSpec
from functions.algorithms.registry import algorithm
from functions.contract import (
    DescribeTask,
    EvaluateTask,
    Hyperparameters,
    InitialiseTask,
    LearnTask,
    Ref,
    Request,
    SampleTask,
    Team,
)

# The most objects one attempt stores, for what an attempt that was lost may have cost.
MOST_PUTS = 3
# Reading an earlier answer, and reading back a key that was taken.
EXTRA_GETS = 1 + MOST_PUTS


@dataclass(frozen=True)
class Planned:
    """A task to be asked: its work name, the function that serves it, its first attempt and what it weighs.

    `gets` is the most objects an attempt reads. `kind` and `weight` (episodes, for evaluations) scale what was seen of
    earlier tasks to this one. `peers` tasks of its kind, this one included, go with it.
    """

    work: str
    function: str
    request: Request
    kind: str
    gets: int
    weight: int = 1
    peers: int = 1


def spec_of(plan: Plan) -> AlgorithmSpec:
    """The algorithm of the run."""
    return algorithm(plan.config.algorithm.__struct_config__.tag)  # type: ignore[arg-type]


def in_flight(plan: Plan, state: State) -> list[Planned]:
    """All tasks of the phase, asked already or not."""
    match state.phase:
        case "describe":
            return [_describe(plan, state)]
        case "initialise":
            return [_initialise(plan, state)]
        case "sample":
            return samples(plan, state) + _evaluations_when_due(plan, state)
        case "learn":
            return learns(plan, state, state.wave)
        case "final":
            return evaluations(plan, state, "final", plan.config.evaluation.final_episodes, state.policies)
        case "absolute":
            policies = state.best.policies if state.best else state.policies
            return evaluations(plan, state, "absolute", 10 * plan.config.evaluation.episodes, policies)


def samples(plan: Plan, state: State) -> list[Planned]:
    """The round's sampling."""
    actors = plan.config.actors
    units = SCALING_RULES[plan.config.scaling.rule](plan.config.scaling.units)
    planned = []
    shares = packs(units, plan.config.placement.units_per_invocation)
    for pack in shares:
        work = f"sample/{keys.units_name(pack)}"
        request = SampleTask(
            **_address(plan, state, work),
            environment=plan.config.task,
            team=_team(state),
            policies=state.policies,
            units=pack,
            copies=actors.copies,
            steps=actors.steps or state.task.horizon,
        )
        gets = EXTRA_GETS + len(state.policies)
        planned.append(Planned(work, "actor", request, "sample", gets, peers=len(shares)))
    return planned


def learner_waves(plan: Plan, state: State) -> list[list[Work]]:
    """How the round's learning is spread over invocations."""
    return LEARNER_PLACEMENTS[plan.config.placement.rule](spec_of(plan).stages, state.groups)


def learns(plan: Plan, state: State, wave: int) -> list[Planned]:
    """The tasks of one wave of the round's learning; earlier phases must be answered."""
    works = learner_waves(plan, state)
    units = [slot for name, slot in sorted(state.slots.items()) if name.startswith("sample/")]
    trajectories = tuple(slot.done.objects["trajectory"] for slot in units if slot.done)
    tensors = _published(state, works[:wave])
    return [_learn(plan, state, work, trajectories, tensors) for work in works[wave]]


def _learn(plan: Plan, state: State, work: Work, trajectories: tuple[Ref, ...], tensors: tuple[Ref, ...]) -> Planned:
    spec = spec_of(plan)
    parts = {part for stage in work.stages for part in spec.stage(stage).reads}
    needed = {f"{part}/{keys.group_name(group)}" for part in parts for group in work.groups}
    request = LearnTask(
        **_address(plan, state, work.name),
        **_learning(plan),
        spec=state.task,
        team=_team(state),
        stages=work.stages,
        groups=work.groups,
        units=tuple(range(SCALING_RULES[plan.config.scaling.rule](plan.config.scaling.units))),
        trajectories=trajectories,
        state=state.refs(needed),
        tensors=tensors,
        publish_tensors=work.publish,
    )
    gets = EXTRA_GETS + len(trajectories) + len(request.state) + len(tensors)
    peers = sum(map(len, learner_waves(plan, state)))
    return Planned(work.name, "learner", request, "learn", gets, peers=peers)


def _published(state: State, waves: list[list[Work]]) -> tuple[Ref, ...]:
    published = [work.name for wave in waves for work in wave if work.publish]
    return tuple(done.objects["tensors"] for name in published if (done := state.slots[name].done))


def evaluations(plan: Plan, state: State, stream: str, episodes: int, policies: tuple[Ref, ...]) -> list[Planned]:
    """`episodes` greedy episodes on the start states of `stream`, in parts of a size that only the user sets."""
    size = plan.config.evaluation.episodes_per_invocation
    planned = []
    gets = EXTRA_GETS + len(policies)
    for part, start in enumerate(starts := range(0, episodes, size)):
        work = f"{stream}/{part:03d}"
        request = EvaluateTask(
            **_address(plan, state, work),
            environment=plan.config.task,
            team=_team(state),
            policies=policies,
            stream=stream,
            part=part,
            episodes=min(size, episodes - start),
        )
        planned.append(Planned(work, "evaluator", request, "evaluate", gets, request.episodes, len(starts)))
    return planned


def _evaluations_when_due(plan: Plan, state: State) -> list[Planned]:
    if state.round == 0 or state.round % plan.config.evaluation.every:
        return []
    return evaluations(plan, state, "evaluate", plan.config.evaluation.episodes, state.policies)


def _describe(plan: Plan, state: State) -> Planned:
    request = DescribeTask(**_address(plan, state, "describe"), environment=plan.config.task)
    return Planned("describe", "actor", request, "describe", EXTRA_GETS)


def _initialise(plan: Plan, state: State) -> Planned:
    request = InitialiseTask(
        **_address(plan, state, "initialise"),
        **_learning(plan),
        spec=state.task,
        team=_team(state),
    )
    return Planned("initialise", "learner", request, "initialise", EXTRA_GETS)


def _address(plan: Plan, state: State, work: str) -> dict[str, Any]:
    """The fields every task has, for the first attempt."""
    return {
        "id": keys.task_id(plan.run, state.round, work),
        "run": plan.run,
        "round": state.round,
        "output": keys.output_prefix(state.round, work),
        "timeout_s": 0.0,
        "seed": plan.config.seed,
    }


def _learning(plan: Plan) -> dict[str, Any]:
    settings = msgspec.to_builtins(plan.config.algorithm)
    hyperparameters: Hyperparameters = {name: value for name, value in settings.items() if value is not None}
    return {"algorithm": hyperparameters.pop("name"), "hyperparameters": hyperparameters}


def _team(state: State) -> Team:
    if state.team is None:
        raise ValueError("the team is known only after the task was looked at")
    return state.team
