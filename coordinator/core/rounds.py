"""The parts of a round, computed from plan and state alone. They are its rollouts, its share of the run, its unfinished
episodes, and the object with the newest version of each learner part."""

import dataclasses
from collections.abc import Iterable
from functools import cache, lru_cache

from msgspec.structs import replace

from marless.coordinator.core import controller, opponents
from marless.coordinator.core.state import Plan, State
from marless.coordinator.placement.placement_rules import PLACEMENTS, Packs, Work, object_kind, packs_of_parts
from marless.functions import keys
from marless.functions.algorithms.registry import algorithm
from marless.functions.algorithms.specification import AlgorithmSpec
from marless.functions.messages.actor import Behaviour, Unfinished
from marless.functions.messages.exchange import Done
from marless.functions.messages.learner import Past, newest_rounds
from marless.functions.messages.message import Ref
from marless.functions.messages.team import Team

# Objects are read in the order of their keys, and later objects overwrite earlier objects. So the objects of a new team
# come after the objects that the same round learned.
WHOLE, REGROUP = "sample/whole", "team"

Locations = tuple[tuple[Ref, ...], dict[str, int]]
"""Objects in the order of their keys, and for each `part/group` the position of the object that holds it."""


_without_idle_parts = cache(AlgorithmSpec.without)
_with_stale_reads = cache(AlgorithmSpec.reading)
_adapted = cache(AlgorithmSpec.adapted)


def spec_of(plan: Plan) -> AlgorithmSpec:
    """Return the run's algorithm, with the parts that its settings need and the extra reads to learn from old data."""
    config = plan.config.algorithm
    spec = _without_idle_parts(algorithm(config.name), config.idle_parts)
    spec = _with_stale_reads(spec, config.stale_reads if plan.config.pipeline.lag else ())
    return _adapted(spec) if plan.inputs.base else spec


def serving(plan: Plan, function: str) -> str:
    """Return the function that does the work of `function` in the run. An algorithm may bring another function."""
    return spec_of(plan).function or function


def learner_schedule(plan: Plan, state: State) -> list[list[Work]]:
    """Return the waves of invocations that share the round's learning. It is empty if the round only samples, because
    all data are too new to learn from."""
    if state.round < plan.config.pipeline.lag:
        return []
    updates = plan.config.algorithm.updates_per_round
    return _schedule(state.placement.rule, spec_of(plan), state.groups, updates, state.placement.packs)


def sum_works(plan: Plan, state: State) -> list[list[Work]]:
    """The invocations that sum over each micro-batch of the round."""
    placement, number = state.placement, len(micro_batches(plan, state))
    return _sum_works(placement.rule, spec_of(plan), state.groups, placement.packs, number)


@cache
def _sum_works(
    rule: str, spec: AlgorithmSpec, groups: tuple[int, ...], packs: Packs, micro_batches: int
) -> list[list[Work]]:
    works = (
        [work for wave in PLACEMENTS[rule]((spec.sums,), groups, 1, packs) for work in wave] if micro_batches else []
    )
    return [
        [dataclasses.replace(work, name=f"grad/{number:05d}/{work.name.partition('/')[2]}") for work in works]
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
        whole_objects = done_of(state, WHOLE).objects
        fixed_parts = _opponents(plan, state)
        locations = {
            part: ref if part in fixed_parts else whole_objects[object_kind(part.partition("/")[0])]
            for part, ref in locations.items()
        }
    for works in learner_schedule(plan, state)[:wave]:
        for work in works:
            objects = done_of(state, work.name).objects
            for part, group in work.writes(spec.stages):
                locations[f"{part}/{keys.group_name(group)}"] = objects[object_kind(part)]
    return index_objects(locations)


def locations_after_regrouping(plan: Plan, state: State) -> Locations:
    """The locations of the proposed team's state."""
    assert state.proposal is not None
    objects, parts = locations_after_learning(plan, state)
    new_objects, proposal = done_of(state, REGROUP).objects, state.proposal
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
    return opponents.parts(state.team, plan.inputs.opponents) if state.team else ()


def done_of(state: State, work: str) -> Done:
    """Return the answer of a task. Raise `ValueError` if it has none yet."""
    if (done := state.slots[work].done) is None:
        raise ValueError(f"{work} is not answered")
    return done


def policies_in(objects: tuple[Ref, ...], parts: dict[str, int]) -> tuple[Ref, ...]:
    """The `objects` that hold policies, each once, in order."""
    return tuple(objects[index] for index in sorted({at for part, at in parts.items() if part.startswith("policy/")}))


def team_of(state: State) -> Team:
    """Return the present team. Raises `ValueError` before the task was looked at."""
    if state.team is None:
        raise ValueError("the team is known only after the task was looked at")
    return state.team


def rollout_steps(plan: Plan, state: State) -> int:
    """Environment steps of one rollout."""
    return plan.config.actors.num_envs * (plan.config.actors.rollout_length or state.env_spec.horizon)


def rollout_packs(plan: Plan, state: State) -> dict[str, tuple[int, ...]]:
    """The rollouts of each task that plays, by the task's name."""
    if PLACEMENTS[state.placement.rule].one_function:
        return {WHOLE: tuple(range(state.controller.rollouts))}
    return _packs(state.controller.rollouts, _per_invocation(state), plan.config.pipeline.micro_batch)


def micro_batches(plan: Plan, state: State) -> tuple[dict[str, tuple[int, ...]], ...]:
    """Return the `rollout_packs` of each micro-batch, or an empty tuple without sums."""
    size = plan.config.pipeline.micro_batch
    if not size or PLACEMENTS[state.placement.rule].one_function:
        return ()
    return _micro_batches(state.controller.rollouts, _per_invocation(state), size)


def _per_invocation(state: State) -> int:
    # Each rollout of a league has different opponents.
    return 1 if state.league else state.placement.rollouts_per_invocation


@lru_cache(maxsize=8)
def _packs(rollouts: int, per_invocation: int, micro_batch: int) -> dict[str, tuple[int, ...]]:
    parts = _micro_batches(rollouts, per_invocation, micro_batch or rollouts)
    return {name: pack for part in parts for name, pack in part.items()}


@lru_cache(maxsize=8)
def _micro_batches(rollouts: int, per_invocation: int, size: int) -> tuple[dict[str, tuple[int, ...]], ...]:
    return tuple(
        {f"sample/{keys.rollouts_name(pack)}": pack for pack in of_part}
        for of_part in packs_of_parts(rollouts, per_invocation, size)
    )


def fragments(plan: Plan, state: State) -> bool:
    """Return whether rollouts are shorter than an episode, so that their episodes continue in the next round."""
    steps, horizon = plan.config.actors.rollout_length, state.env_spec.horizon
    return steps is not None and steps < horizon and plan.inputs.dataset is None


def begun_episodes(state: State, rollouts: Iterable[int]) -> tuple[Ref, ...]:
    """Return the objects with the episodes that the rollouts continue."""
    numbers = {*rollouts}
    return tuple(one.episodes for one in state.unfinished if not numbers.isdisjoint(one.rollouts))


def unfinished_episodes(plan: Plan, state: State) -> tuple[Unfinished, ...]:
    """Return the episodes that are unfinished after the round in flight, oldest first."""
    if not fragments(plan, state):
        return ()
    new = [
        Unfinished(rollouts=pack, episodes=done.objects["unfinished"])
        for work, pack in rollout_packs(plan, state).items()
        if (done := state.slots[work].done)
    ]
    played_rollouts = {rollout for one in new for rollout in one.rollouts}
    old = [replace(one, rollouts=tuple(sorted({*one.rollouts} - played_rollouts))) for one in state.unfinished]
    return (*(one for one in old if one.rollouts), *new)


def trajectories(state: State, works: Iterable[str] | None = None) -> tuple[Ref, ...]:
    """The trajectories that these `works` have stored, by default all of the round."""
    names = sorted(name for name in state.slots if name.startswith("sample/")) if works is None else works
    dones = [state.slots[name].done for name in names]
    return tuple(done.objects["trajectory"] for done in dones if done and "trajectory" in done.objects)


def sampled_round(state: State, trajectories: tuple[Ref, ...] = ()) -> Past:
    """The round in flight, as one to learn from."""
    return Past(round=state.round, rollouts=state.controller.rollouts, trajectories=trajectories)


def learned_round(plan: Plan, state: State) -> Past:
    """The round that the one in flight learns from: itself, or the one `pipeline.lag` rounds before it.

    Which one that is depends on the number of the round alone, so a run has the same bytes however long its tasks take.
    """
    if lag := plan.config.pipeline.lag:
        return next(past for past in state.past if past.round == state.round - lag)
    return sampled_round(state, trajectories(state))


def replayed_rounds(plan: Plan, state: State, newest: Past) -> tuple[Past, ...]:
    """Return the rounds before `newest` in the replay buffer that ends with `newest`."""
    before = (past for past in state.past if past.round < newest.round)
    most = plan.config.algorithm.replayed_steps
    return newest_rounds((*before, newest), rollout_steps(plan, state), most)[:-1]


def remember_rounds(plan: Plan, state: State, rounds: int) -> tuple[Past, ...]:
    """The past rounds that may be learned from after the `rounds` rounds in flight."""
    most, lag = plan.config.algorithm.replayed_steps, plan.config.pipeline.lag
    if not most and not lag:
        return ()
    whole = state.slots.get(WHOLE)
    trajectory_refs = (whole.done.objects["played"],) if most and whole and whole.done else trajectories(state)
    new = [
        Past(round=state.round + index, rollouts=state.controller.rollouts, trajectories=trajectory_refs)
        for index in range(rounds)
    ]
    sampled_rounds = (*state.past, *new)
    # With a lag the next round learns from the round before `waiting`. Without a lag it learns from itself.
    waiting = max(0, len(sampled_rounds) - max(0, lag - 1))
    replayed = newest_rounds(sampled_rounds[:waiting], rollout_steps(plan, state), most)
    return (*replayed, *sampled_rounds[waiting:])


def behaviour(plan: Plan, state: State, rounds_later: int = 0) -> Behaviour:
    """Return the exploration settings of actors in the round in flight, or `rounds_later` rounds after it."""
    steps = rounds_later * state.controller.rollouts * rollout_steps(plan, state)
    return plan.config.algorithm.resolved(state.env_spec).behaviour(state.env_steps + steps)


def scheduled(plan: Plan) -> bool:
    """Return whether some setting changes during the run."""
    return any(kind != "constant" for kind in plan.config.algorithm.schedules.values())


def progress(plan: Plan, state: State, rounds_later: int = 0) -> float:
    """Return the share of the run that is over before the round in flight, or `rounds_later` rounds after it. It is the
    share of steps or of rounds, and the larger one counts."""
    stop, done = plan.config.stop, state.round + rounds_later
    steps = state.env_steps + rounds_later * state.controller.rollouts * rollout_steps(plan, state)
    limits = ((done, stop.rounds), (steps, stop.env_steps))
    return min(1.0, max((over / limit for over, limit in limits if limit), default=0.0))


def rounds_together(plan: Plan, state: State) -> int:
    """Return the number of rounds that run in one function, this round included."""
    return max(1, min(state.placement.rounds, undisturbed(plan, state), to_checkpoint(state)))


def to_checkpoint(state: State) -> int:
    """Return the rounds until the next checkpoint, 0 or less if one is due.

    One is due at once where objects begin to travel inside messages, because a resume needs stored objects.
    """
    if state.placement.inline_objects and state.saved is None:
        return 0
    return state.placement.checkpoint_every - (state.round - (state.saved or 0))


def is_evaluated(plan: Plan, state: State) -> bool:
    """Return True if the policies that sample in this round are evaluated."""
    evaluation = plan.config.evaluation
    if evaluation.every_steps is None:
        return state.round > 0 and state.round % evaluation.every == 0
    return state.env_steps // evaluation.every_steps > state.evaluated // evaluation.every_steps


def to_evaluation(plan: Plan, state: State) -> int:
    """Return the number of rounds, this one included, until policies are evaluated again."""
    evaluation = plan.config.evaluation
    if evaluation.every_steps is None:
        return evaluation.every - state.round % evaluation.every
    steps = state.controller.rollouts * rollout_steps(plan, state)
    return -(-(evaluation.every_steps - state.env_steps % evaluation.every_steps) // steps)


def undisturbed(plan: Plan, state: State) -> int:
    """Return the number of rounds, this one included, that need no decision in between, up to `placement.chain`."""
    config, first = plan.config, state.round
    if controller.looks_at_rounds(config):
        return 1
    most = min(config.placement.chain, to_evaluation(plan, state))
    if config.stop.rounds is not None:
        most = min(most, config.stop.rounds - first)
    if config.stop.env_steps is not None:
        steps = state.controller.rollouts * rollout_steps(plan, state)
        most = min(most, -(-(config.stop.env_steps - state.env_steps) // steps))
    return max(1, most)


def agents_learned_from(plan: Plan, state: State, groups: Iterable[int]) -> int:
    """Return the number of agents that supply rows to the learners of these groups."""
    members = team_of(state).groups
    return sum(1 if plan.config.sharing.rows == "member" else members.count(group) for group in groups)


def most_works(plan: Plan) -> int:
    """The most tasks of a round that learn for one group, with tasks that sum."""
    return 3 + plan.config.pipeline.micro_batches(plan.config.actors.rollouts)


def checkpointed_objects(plan: Plan, state: State) -> int:
    """Return the most objects that the coordinator itself stores until the run ends, twice over. Every learner has two.
    Later rounds read trajectories of `pipeline.lag` rounds and unfinished episodes."""
    if state.round_placement is None or not state.round_placement.inline_objects:
        return 0
    lag = plan.config.pipeline.lag
    # Rounds that only sample keep as much as learning rounds, because the reserve for the end must not grow.
    works = sum(map(len, learner_schedule(plan, replace(state, round=max(state.round, lag))))) or 1
    of_rollout = lag + fragments(plan, state)
    return 2 * (2 * works + len(state.groups) + of_rollout * plan.config.actors.rollouts)
