"""State locations: which object of which task holds the newest version of each part of the learner's state."""

from dataclasses import replace
from functools import cache

from marless.coordinator.core import opponents
from marless.coordinator.core.state import Plan, State
from marless.coordinator.placement.placement_rules import PLACEMENTS, Packs, Work, object_kind
from marless.functions import keys
from marless.functions.algorithms.registry import algorithm
from marless.functions.algorithms.specification import AlgorithmSpec
from marless.functions.messages.message import Ref

# Objects are read in the order of their keys, and later ones overwrite earlier ones: the objects of a new team come
# after those that the same round learned.
WHOLE, REGROUP = "sample/whole", "team"

Locations = tuple[tuple[Ref, ...], dict[str, int]]
"""Objects in the order of their keys, and for each `part/group` the position of the object that holds it."""


_without_idle_parts = cache(AlgorithmSpec.without)
_with_stale_reads = cache(AlgorithmSpec.reading)
_adapted = cache(AlgorithmSpec.adapted)


def spec_of(plan: Plan) -> AlgorithmSpec:
    """The algorithm of the run, with the parts that its settings need, and what stages read to learn from old data."""
    config = plan.config.algorithm
    spec = _without_idle_parts(algorithm(config.name), config.idle_parts)
    spec = _with_stale_reads(spec, config.stale_reads if plan.config.pipeline.lag else ())
    return _adapted(spec) if plan.inputs.base else spec


def serving(plan: Plan, function: str) -> str:
    """The function that does the work of `function` in the run: that of an algorithm with one of its own."""
    return spec_of(plan).function or function


def learner_schedule(plan: Plan, state: State) -> list[list[Work]]:
    """The waves of invocations over which the round's learning is spread; none where nothing is old enough to learn
    from, so that the round only samples."""
    if state.round < plan.config.pipeline.lag:
        return []
    updates = plan.config.algorithm.updates_per_round
    return _schedule(state.placement.rule, spec_of(plan), state.groups, updates, state.placement.packs)


def sum_works(plan: Plan, state: State, micro_batches: int) -> list[list[Work]]:
    """The invocations that sum over each of so many micro-batches of the round."""
    return _sum_works(state.placement.rule, spec_of(plan), state.groups, state.placement.packs, micro_batches)


@cache
def _sum_works(
    rule: str, spec: AlgorithmSpec, groups: tuple[int, ...], packs: Packs, micro_batches: int
) -> list[list[Work]]:
    """Cached as `_schedule`."""
    works = (
        [work for wave in PLACEMENTS[rule]((spec.sums,), groups, 1, packs) for work in wave] if micro_batches else []
    )
    return [
        [replace(work, name=f"grad/{number:05d}/{work.name.partition('/')[2]}") for work in works]
        for number in range(micro_batches)
    ]


@cache
def _schedule(rule: str, spec: AlgorithmSpec, groups: tuple[int, ...], updates: int, packs: Packs) -> list[list[Work]]:
    """Cached: every decision needs it, and a round may have thousands of work items."""
    return PLACEMENTS[rule](spec.stages, groups, updates, packs)


def locations_after_learning(plan: Plan, state: State, wave: int | None = None) -> Locations:
    """The locations after the round's learning, or before its wave number `wave`."""
    spec = spec_of(plan)
    locations = {part: state.objects[index] for part, index in state.parts.items()}
    if PLACEMENTS[state.placement.rule].one_function:
        whole_objects = _objects(state, WHOLE)
        fixed_parts = _opponents(plan, state)
        locations = {
            part: ref if part in fixed_parts else whole_objects[object_kind(part.partition("/")[0])]
            for part, ref in locations.items()
        }
    for works in learner_schedule(plan, state)[:wave]:
        for work in works:
            objects = _objects(state, work.name)
            for part, group in work.writes(spec.stages):
                locations[f"{part}/{keys.group_name(group)}"] = objects[object_kind(part)]
    return index_objects(locations)


def locations_after_regrouping(plan: Plan, state: State) -> Locations:
    """The locations of the proposed team's state."""
    assert state.proposal is not None
    objects, parts = locations_after_learning(plan, state)
    new_objects, proposal = _objects(state, REGROUP), state.proposal
    locations = {name: objects[parts[name]] for name in _opponents(plan, state)}
    for part in spec_of(plan).parts:
        for group in proposal.team.learning:
            name = f"{part}/{keys.group_name(group)}"
            new_object = new_objects[object_kind(part)]
            locations[name] = new_object if group in proposal.bases else objects[parts[name]]
    return index_objects(locations)


def index_objects(locations: dict[str, Ref]) -> Locations:
    """The distinct objects of `locations` in the order of their keys, and each part's position among them."""
    distinct = tuple(sorted(set(locations.values()), key=lambda ref: ref.key))
    positions = {ref.key: index for index, ref in enumerate(distinct)}
    return distinct, {part: positions[locations[part].key] for part in sorted(locations)}


def _opponents(plan: Plan, state: State) -> tuple[str, ...]:
    """The parts that no stage learns."""
    return opponents.parts(state.team, plan.inputs.opponents) if state.team else ()


def _objects(state: State, work: str) -> dict[str, Ref]:
    done = state.slots[work].done
    if done is None:
        raise ValueError(f"{work} is not answered")
    return done.objects


def policies_in(objects: tuple[Ref, ...], parts: dict[str, int]) -> tuple[Ref, ...]:
    """The `objects` that hold policies, each once, in order."""
    return tuple(objects[index] for index in sorted({at for part, at in parts.items() if part.startswith("policy/")}))
