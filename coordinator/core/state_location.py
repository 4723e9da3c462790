"""Where the parts of the learner's state live: which object of which task holds the newest of each."""

from functools import cache

from coordinator.core import opponents
from coordinator.core.state import Plan, State
from coordinator.placement.rules import LEARNER_PLACEMENTS, Rule, Work
from functions import keys
from functions.algorithms.base import AlgorithmSpec, StageSpec
from functions.algorithms.registry import algorithm
from functions.contract import Ref

# Objects are read in the order of their keys and the last word counts: what a new team is made of comes after what the
# same round learned.
WHOLE, REGROUP = "sample/whole", "team"


def spec_of(plan: Plan) -> AlgorithmSpec:
    """The algorithm of the run, with the parts that its settings need."""
    config = plan.config.algorithm
    return _fitted(algorithm(config.name), config.idle_parts)


@cache
def _fitted(spec: AlgorithmSpec, idle: tuple[str, ...]) -> AlgorithmSpec:
    return spec.without(idle)


def learner_waves(plan: Plan, state: State) -> list[list[Work]]:
    """How the round's learning is spread over invocations."""
    updates = plan.config.algorithm.updates_per_round
    return _waves(state.place.rule, spec_of(plan).stages, state.groups, updates)


@cache
def _waves(rule: Rule, stages: tuple[StageSpec, ...], groups: tuple[int, ...], updates: int) -> list[list[Work]]:
    """Asked for with every decision, while there may be thousands of works in a round."""
    return LEARNER_PLACEMENTS[rule](stages, groups, updates)


def learned(plan: Plan, state: State, waves: int | None = None) -> tuple[tuple[Ref, ...], dict[str, int]]:
    """Where every part of the learner's state lives after the round's learning, or after so many waves of it."""
    spec = spec_of(plan)
    homes = {part: state.objects[index] for part, index in state.parts.items()}
    if state.place.rule == "whole":
        made = _objects(state, WHOLE)
        theirs = _opponents(plan, state)
        homes = {
            part: ref if part in theirs else made["policies" if part.startswith("policy/") else "learner"]
            for part, ref in homes.items()
        }
    for wave in learner_waves(plan, state)[:waves]:
        for work in wave:
            objects = _objects(state, work.name)
            for part in (part for stage in work.stages for part in spec.stage(stage).writes):
                for group in work.groups:
                    homes[f"{part}/{keys.group_name(group)}"] = objects["policies" if part == "policy" else "learner"]
    return housed(homes)


def regrouped(plan: Plan, state: State) -> tuple[tuple[Ref, ...], dict[str, int]]:
    """Where every part of the proposed team's state lives."""
    assert state.proposal is not None
    objects, parts = learned(plan, state)
    made, proposal = _objects(state, REGROUP), state.proposal
    homes = {name: objects[parts[name]] for name in _opponents(plan, state)}
    for part in spec_of(plan).parts:
        for group in proposal.team.learning:
            name = f"{part}/{keys.group_name(group)}"
            changed = made["policies" if part == "policy" else "learner"]
            homes[name] = changed if group in proposal.bases else objects[parts[name]]
    return housed(homes)


def housed(homes: dict[str, Ref]) -> tuple[tuple[Ref, ...], dict[str, int]]:
    """The distinct objects of `homes` in the order of their keys, and each part's position among them."""
    distinct = tuple(sorted(set(homes.values()), key=lambda ref: ref.key))
    positions = {ref.key: index for index, ref in enumerate(distinct)}
    return distinct, {part: positions[homes[part].key] for part in sorted(homes)}


def _opponents(plan: Plan, state: State) -> tuple[str, ...]:
    """The parts that nobody learns."""
    return opponents.parts(state.team, plan.opponents) if state.team else ()


def _objects(state: State, work: str) -> dict[str, Ref]:
    done = state.slots[work].done
    if done is None:
        raise ValueError(f"{work} is not answered")
    return done.objects


def policies_in(objects: tuple[Ref, ...], parts: dict[str, int]) -> tuple[Ref, ...]:
    """Of `objects`, those that hold policies, each once, in order."""
    return tuple(objects[index] for index in sorted({at for part, at in parts.items() if part.startswith("policy/")}))
