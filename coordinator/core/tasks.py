"""The tasks of the phase in flight, derived from plan and state alone."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from coordinator.core import controller
from coordinator.core.league import matches
from coordinator.core.opponents import evaluated_side
from coordinator.core.sides import Side
from coordinator.core.state import Phase, Plan, State, WorkItem
from coordinator.core.state_location import (
    REGROUP,
    WHOLE,
    learner_schedule,
    locations_after_learning,
    policies_in,
    spec_of,
)
from coordinator.core.warm_functions import kept_dataset, kept_past
from coordinator.placement.rules import PLACEMENTS, Work, packs
from coordinator.rules.sharing import BASES
from coordinator.rules.trial import schedule
from functions import keys
from functions.contract import (
    Behaviour,
    DescribeTask,
    EvaluateTask,
    Hyperparameters,
    InitialiseTask,
    LearnTask,
    Match,
    Order,
    Past,
    Recorded,
    Ref,
    RegroupTask,
    Request,
    SampleTask,
    Team,
    Unfinished,
    Usage,
    WholeTask,
)
from functions.data.replay_buffer import newest_rounds
from functions.references import most_reads

# The most objects that one attempt stores: what a lost attempt may have cost.
MOST_PUTS = 4
# An attempt reads an earlier answer, and objects under keys that are taken.
EXTRA_GETS = 1 + MOST_PUTS
# Interim analyses of a trial, at most.
LOOKS = 4


class PlannedTask(msgspec.Struct, frozen=True, gc=False):
    """A work item under its name. `maker` makes its request from the name and the `part` of the work that it is.

    Only the tasks that are dispatched need a request.
    """

    work: str
    item: WorkItem
    maker: Callable[[str, Any], Request]
    part: Any = None

    def make(self) -> Request:
        """The request of the first attempt, without a time limit."""
        return self.maker(self.work, self.part)


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """A work item under its name, with the request of one attempt."""

    work: str
    item: WorkItem
    request: Request


def in_flight(plan: Plan, state: State) -> list[PlannedTask]:
    """All tasks of the phase, dispatched already or not."""
    return _PHASES[state.phase](plan, state)


def _sampling(plan: Plan, state: State) -> list[PlannedTask]:
    return samples(plan, state) + _evaluations_when_due(plan, state)


def _learning_now(plan: Plan, state: State) -> list[PlannedTask]:
    return learns(plan, state, state.wave)


def _final(plan: Plan, state: State) -> list[PlannedTask]:
    return evaluations(plan, state, "final", plan.config.evaluation.final_episodes, state.policies)


def _absolute(plan: Plan, state: State) -> list[PlannedTask]:
    policies, team = (state.best.policies, state.best.team) if state.best else (state.policies, state.team)
    return evaluations(plan, state, "absolute", 10 * plan.config.evaluation.episodes, policies, team)


def samples(plan: Plan, state: State) -> list[PlannedTask]:
    """The round's sampling tasks; with placement `whole` one task that samples and learns."""
    if PLACEMENTS[state.placement.rule].one_function:
        return [_whole(plan, state)]
    rollouts = state.controller.rollouts
    played = matches(plan.config, state.env_spec, state.league, state.round, rollouts)
    # Each rollout of a league has opponents of its own.
    shares = _shares(rollouts, 1 if state.league else state.placement.rollouts_per_invocation)
    like = SampleTask(
        **_address(plan, state, "sample"),
        **_rollout_fields(plan, state),
        environment=plan.config.task,
        team=_team(state),
        policies=() if plan.inputs.dataset else state.policies,
        rollouts=(),
        behaviour=behaviour(plan, state),
        recorded=_recorded(plan, state),
    )
    gets = EXTRA_GETS + most_reads(like)
    gets += max((len(one.policies) for one in state.league.checkpoints), default=0) if state.league else 0
    gets += max(len(_begun(state, pack)) for pack in shares.values()) if state.unfinished else 0
    items = _sample_items(plan, state, [len(pack) for pack in shares.values()], gets)

    def make(work: str, pack: tuple[int, ...]) -> SampleTask:
        named = replace(like, **_names(like, work), rollouts=pack, unfinished=_begun(state, pack))
        return named if pack[0] not in played else _as_match(plan, state, named, *played[pack[0]])

    return [PlannedTask(work, item, make, pack) for (work, pack), item in zip(shares.items(), items, strict=True)]


def _as_match(plan: Plan, state: State, task: SampleTask, side: Side, position: int) -> SampleTask:
    """The task with the policies of a checkpoint for all sides but one."""
    assert state.league is not None
    checkpoint, greedy = state.league.checkpoints[position], task.behaviour.kind != "sample"
    match = Match(agents=side.agents, team=checkpoint.team, greedy=greedy)
    return replace(task, match=match, match_policies=checkpoint.policies)


@lru_cache(maxsize=8)
def _shares(rollouts: int, per_invocation: int) -> dict[str, tuple[int, ...]]:
    """The rollouts of each sampling task, by the task's name; cached, because each decision needs all of them."""
    return {f"sample/{keys.rollouts_name(pack)}": pack for pack in packs(rollouts, per_invocation)}


def _begun(state: State, rollouts: Iterable[int]) -> tuple[Ref, ...]:
    """The objects with the episodes that the rollouts go on with."""
    own = {*rollouts}
    return tuple(one.episodes for one in state.unfinished if not own.isdisjoint(one.rollouts))


def unfinished_episodes(plan: Plan, state: State) -> tuple[Unfinished, ...]:
    """What rollouts have not finished after the round in flight, oldest first."""
    if not fragments(plan, state):
        return ()
    if PLACEMENTS[state.placement.rule].one_function:
        packs = {WHOLE: tuple(range(state.controller.rollouts))}
    else:
        packs = _shares(state.controller.rollouts, state.placement.rollouts_per_invocation)
    new = [
        Unfinished(rollouts=pack, episodes=done.objects["unfinished"])
        for work, pack in packs.items()
        if (done := state.slots[work].done)
    ]
    played = {rollout for one in new for rollout in one.rollouts}
    old = [replace(one, rollouts=tuple(sorted({*one.rollouts} - played))) for one in state.unfinished]
    return (*(one for one in old if one.rollouts), *new)


def fragments(plan: Plan, state: State) -> bool:
    """Whether rollouts are shorter than an episode, so that their episodes go on in the next round."""
    steps, horizon = plan.config.actors.rollout_length, state.env_spec.horizon
    return steps is not None and steps < horizon and plan.inputs.dataset is None


def _sample_items(plan: Plan, state: State, sizes: Sequence[int], gets: int) -> list[WorkItem]:
    """The work items of tasks with so many rollouts, equal ones once."""
    memory_mb, items = function_memory(plan, state, "actor"), dict[tuple[int, Usage], WorkItem]()
    found = []
    for number, size in enumerate(sizes):
        kept = kept_dataset(plan, state, "actor", number, memory_mb)
        if (size, kept) not in items:
            items[size, kept] = WorkItem(
                function="actor",
                memory_mb=memory_mb,
                kind="sample",
                size=size,
                peers=len(sizes),
                gets=gets,
                kept=kept,
            )
        found.append(items[size, kept])
    return found


def _recorded(plan: Plan, state: State) -> Recorded | None:
    """Where the round's rollouts are read from, if they are not played."""
    if plan.inputs.dataset is None:
        return None
    return Recorded(
        dataset=plan.inputs.dataset, first=state.env_steps // _rollout_fields(plan, state)["rollout_length"]
    )


def _whole(plan: Plan, state: State) -> PlannedTask:
    refs, rounds = state.refs(set(state.parts)), rounds_together(plan, state)
    # A resumed run may take another number of rounds at once while an attempt at the earlier number still writes.
    address = {**_address(plan, state, WHOLE), "output": keys.output_prefix(state.round, f"{WHOLE}-{rounds:03d}")}
    request = WholeTask(
        **address,
        **_learning(plan),
        **_rollout_fields(plan, state),
        environment=plan.config.task,
        spec=state.env_spec,
        team=_team(state),
        rollouts=tuple(range(state.controller.rollouts)),
        behaviours=tuple(behaviour(plan, state, index) for index in range(rounds)),
        state=refs,
        summaries=controller.summaries(plan.config, state.controller),
        rows=plan.config.sharing.rows,
        progress=tuple(progress(plan, state, index) for index in range(rounds)) if scheduled(plan) else (),
        updates=plan.config.algorithm.updates_per_round,
        replayed_steps=plan.config.algorithm.replayed_steps,
        past=past(plan, state),
        recorded=_recorded(plan, state),
        unfinished=_begun(state, range(state.controller.rollouts)),
    )
    memory_mb = function_memory(plan, state, "learner")
    item = WorkItem(
        function="learner",
        memory_mb=memory_mb,
        kind="whole",
        weight=rounds,
        size=state.controller.rollouts * rounds,
        gets=EXTRA_GETS + most_reads(request),
        kept=kept_dataset(plan, state, "learner", 0, memory_mb) + kept_past(state, 0, request.past),
    )
    return PlannedTask(WHOLE, item, lambda work, part: request)


def behaviour(plan: Plan, state: State, rounds_later: int = 0) -> Behaviour:
    """How actors act in the round in flight, or `rounds_later` rounds after it."""
    steps = rounds_later * state.controller.rollouts * rollout_steps(plan, state)
    return plan.config.algorithm.resolved(state.env_spec).behaviour(state.env_steps + steps)


def scheduled(plan: Plan) -> bool:
    """Whether some setting changes during the run."""
    return any(kind != "constant" for kind in plan.config.algorithm.schedules.values())


def progress(plan: Plan, state: State, rounds_later: int = 0) -> float:
    """The share of the run that is over before the round in flight, or `rounds_later` rounds after it: of its steps or
    of its rounds, whichever is the larger."""
    stop, done = plan.config.stop, state.round + rounds_later
    steps = state.env_steps + rounds_later * state.controller.rollouts * rollout_steps(plan, state)
    limits = ((done, stop.rounds), (steps, stop.env_steps))
    return min(1.0, max((over / limit for over, limit in limits if limit), default=0.0))


def rounds_together(plan: Plan, state: State) -> int:
    """How many rounds, this one included, run in one function."""
    return max(1, min(state.placement.rounds, undisturbed(plan, state), to_checkpoint(state)))


def to_checkpoint(state: State) -> int:
    """Rounds until the next checkpoint; 0 or less when one is due.

    One is due at once where objects begin to travel inside messages, because a resume needs stored objects.
    """
    if state.placement.inline_objects and state.saved is None:
        return 0
    return state.placement.checkpoint_every - (state.round - (state.saved or 0))


def undisturbed(plan: Plan, state: State) -> int:
    """How many rounds, this one included, need no decision in between, up to `placement.rounds`."""
    config, first = plan.config, state.round
    if controller.looks_at_rounds(config):
        return 1
    most = min(config.placement.rounds, config.evaluation.every - first % config.evaluation.every)
    if config.stop.rounds is not None:
        most = min(most, config.stop.rounds - first)
    if config.stop.env_steps is not None:
        steps = state.controller.rollouts * rollout_steps(plan, state)
        most = min(most, -(-(config.stop.env_steps - state.env_steps) // steps))
    return max(1, most)


def learns(plan: Plan, state: State, wave: int) -> list[PlannedTask]:
    """The tasks of one wave of the round's learning; earlier waves must be answered."""
    schedule = learner_schedule(plan, state)
    first = schedule[wave][0].first
    tensors = _published(state, [work for before in schedule[:wave] for work in before if work.first == first])
    objects, parts = locations_after_learning(plan, state, wave)
    now = replace(state, objects=objects, parts=parts) if wave else state
    like = LearnTask(
        **_address(plan, state, "learn"),
        **_learning(plan),
        spec=state.env_spec,
        team=_team(state),
        stages=(),
        groups=(),
        rollouts=tuple(range(state.controller.rollouts)),
        trajectories=_trajectories(state),
        state=(),
        tensors=tensors,
        rows=plan.config.sharing.rows,
        progress=progress(plan, state) if scheduled(plan) else 0.0,
        past=past(plan, state),
    )
    gets = EXTRA_GETS + most_reads(like)
    return [_learn(plan, now, work, number, like, gets) for number, work in enumerate(schedule[wave])]


def remember_rounds(plan: Plan, state: State, rounds: int) -> tuple[Past, ...]:
    """The past rounds that may be learned from after the `rounds` rounds in flight."""
    most = plan.config.algorithm.replayed_steps
    whole = state.slots.get(WHOLE)
    trajectories = (whole.done.objects["played"],) if most and whole and whole.done else _trajectories(state)
    new = [
        Past(round=state.round + index, rollouts=state.controller.rollouts, trajectories=trajectories)
        for index in range(rounds)
    ]
    return newest_rounds((*state.past, *new), rollout_steps(plan, state), most) if most else ()


def _trajectories(state: State) -> tuple[Ref, ...]:
    """The round's trajectories, where they are stored."""
    dones = [slot.done for name, slot in sorted(state.slots.items()) if name.startswith("sample/")]
    return tuple(done.objects["trajectory"] for done in dones if done and "trajectory" in done.objects)


def _learn(plan: Plan, state: State, work: Work, number: int, like: LearnTask, gets: int) -> PlannedTask:
    """The `number`-th task of its wave; `gets` is what all of them read at most, each beside its part of the state."""
    spec = spec_of(plan)
    parts = {part for stage in work.stages for part in spec.stage(stage).reads}
    refs = state.refs({f"{part}/{keys.group_name(group)}" for part in parts for group in work.groups})
    trains = any("policy" in spec.stage(stage).writes for stage in work.stages)
    item = WorkItem(
        function="learner",
        memory_mb=function_memory(plan, state, "learner"),
        kind=learning_kind(plan, work),
        size=agents_learned_from(plan, state, work.groups) * state.controller.rollouts * rollout_steps(plan, state),
        peers=sum(map(len, learner_schedule(plan, state))),
        gets=gets + len(refs),
        kept=kept_past(state, number, like.past),
    )

    def make(name: str, part: None) -> LearnTask:
        """The request of the work item `name`."""
        return replace(
            like,
            **_names(like, name),
            stages=work.stages,
            groups=work.groups,
            state=refs,
            publish_tensors=work.publish,
            summaries=controller.summaries(plan.config, state.controller) if trains else (),
            first_update=work.first,
            updates=work.updates,
        )

    return PlannedTask(work.name, item, make)


def agents_learned_from(plan: Plan, state: State, groups: Iterable[int]) -> int:
    """How many agents' rows the learners of these groups learn from."""
    team = _team(state).groups
    return sum(1 if plan.config.sharing.rows == "member" else team.count(group) for group in groups)


def learning_kind(plan: Plan, work: Work) -> str:
    """The kind of a learner's task, by its stages."""
    whole = len(work.stages) == len(spec_of(plan).stages)
    return "learn" if whole else f"learn:{'+'.join(work.stages)}"


def rollout_steps(plan: Plan, state: State) -> int:
    """Environment steps of one rollout."""
    return plan.config.actors.num_envs * (plan.config.actors.rollout_length or state.env_spec.horizon)


def past(plan: Plan, state: State) -> tuple[Past, ...]:
    """The earlier rounds that this round learns from."""
    own = Past(round=state.round, rollouts=state.controller.rollouts, trajectories=())
    return newest_rounds((*state.past, own), rollout_steps(plan, state), plan.config.algorithm.replayed_steps)[:-1]


def _published(state: State, works: list[Work]) -> tuple[Ref, ...]:
    published = [work.name for work in works if work.publish]
    return tuple(done.objects["tensors"] for name in published if (done := state.slots[name].done))


def _regroup(plan: Plan, state: State) -> list[PlannedTask]:
    proposal, team = state.proposal, _team(state)
    assert proposal is not None
    objects, parts = locations_after_learning(plan, state)
    leaving = {team.groups[agent] for agent, group in enumerate(proposal.team.groups) if group in proposal.bases}
    old = {keys.group_name(group) for group in leaving}
    positions = sorted({index for part, index in parts.items() if part.split("/")[1] in old})
    # Only networks that are merged learn from the round's data, which is played again where it is not stored.
    merges = any(len(team.origins(proposal.team, group)) > 1 for group in proposal.bases)
    sharing, trajectories = plan.config.sharing, _trajectories(state) if merges else ()
    plays = merges and not trajectories
    request = RegroupTask(
        **_address(plan, state, REGROUP),
        **_learning(plan),
        **_rollout_fields(plan, state),
        environment=plan.config.task,
        spec=state.env_spec,
        team=team,
        target=proposal.team,
        bases=proposal.bases,
        rollouts=tuple(range(state.controller.rollouts)),
        trajectories=trajectories,
        policies=state.policies if plays else (),
        behaviour=behaviour(plan, state),
        unfinished=_begun(state, range(state.controller.rollouts)) if plays else (),
        state=tuple(objects[index] for index in positions),
        distil_steps=sharing.distil_steps if BASES[sharing.base].distils else 0,
    )
    item = WorkItem(
        function="learner",
        memory_mb=function_memory(plan, state, "learner"),
        kind="regroup",
        gets=EXTRA_GETS + most_reads(request),
    )
    return [PlannedTask(REGROUP, item, lambda work, part: request)]


def _trials(plan: Plan, state: State) -> list[PlannedTask]:
    """The trial's episodes up to its next look, of the new and the old team on the same start states."""
    proposal = state.proposal
    assert proposal is not None
    totals = (0, *schedule(plan.config.sharing.trial_episodes, LOOKS))
    episodes, stream = totals[proposal.look + 1] - totals[proposal.look], f"trial-{proposal.look}"
    arms = {
        "new": (policies_in(proposal.objects, proposal.parts), proposal.team),
        "old": (policies_in(*locations_after_learning(plan, state)), _team(state)),
    }
    everybody = not _team(state).fixed
    return [
        task
        for arm, (policies, team) in arms.items()
        for task in evaluations(
            plan, state, stream, episodes, policies, team, f"trial/{arm}/{proposal.look:03d}", everybody
        )
    ]


def evaluations(
    plan: Plan,
    state: State,
    stream: str,
    episodes: int,
    policies: tuple[Ref, ...],
    team: Team | None = None,
    work: str = "",
    everybody: bool = False,
) -> list[PlannedTask]:
    """`episodes` greedy episodes on the start states of `stream`, in parts of `evaluation.episodes_per_invocation`.

    `policies` belong to `team`, by default the present one. `work` is the prefix of the work names, by default the
    stream. Where sides compete, returns are those of the `evaluated_side`; with `everybody`, of all agents.
    """
    side = None if everybody else evaluated_side(plan.config, state.env_spec)
    size = plan.config.evaluation.episodes_per_invocation
    memory_mb = function_memory(plan, state, "evaluator")
    like = EvaluateTask(
        **_address(plan, state, work or stream),
        environment=plan.config.task,
        team=team or _team(state),
        policies=policies,
        stream=stream,
        part=0,
        episodes=0,
        side=side.number if side else None,
    )

    def make(name: str, share: tuple[int, int]) -> EvaluateTask:
        return replace(like, **_names(like, name), part=share[0], episodes=share[1])

    gets, planned = EXTRA_GETS + most_reads(like), []
    for part, start in enumerate(starts := range(0, episodes, size)):
        weight = min(size, episodes - start)
        item = WorkItem(
            function="evaluator", memory_mb=memory_mb, kind="evaluate", weight=weight, peers=len(starts), gets=gets
        )
        planned.append(PlannedTask(f"{work or stream}/{part:03d}", item, make, (part, weight)))
    return planned


def _evaluations_when_due(plan: Plan, state: State) -> list[PlannedTask]:
    if state.round == 0 or state.round % plan.config.evaluation.every:
        return []
    return evaluations(plan, state, "evaluate", plan.config.evaluation.episodes, state.policies)


def _describe(plan: Plan, state: State) -> list[PlannedTask]:
    request = DescribeTask(**_address(plan, state, "describe"), environment=plan.config.task)
    memory_mb = function_memory(plan, state, "actor")
    item = WorkItem(function="actor", memory_mb=memory_mb, kind="describe", gets=EXTRA_GETS)
    return [PlannedTask("describe", item, lambda work, part: request)]


def _initialise(plan: Plan, state: State) -> list[PlannedTask]:
    request = InitialiseTask(
        **_address(plan, state, "initialise"),
        **_learning(plan),
        spec=state.env_spec,
        team=_team(state),
    )
    memory_mb = function_memory(plan, state, "learner")
    item = WorkItem(function="learner", memory_mb=memory_mb, kind="initialise", gets=EXTRA_GETS)
    return [PlannedTask("initialise", item, lambda work, part: request)]


def function_memory(plan: Plan, state: State, function: str) -> int:
    """Megabytes of a function: as the placement chose, else as the user set."""
    sizes = plan.config.functions
    usual = {"actor": sizes.actor, "learner": sizes.learner, "evaluator": sizes.evaluator}[function].memory_mb
    return state.round_placement.memory_mb.get(function, usual) if state.round_placement else usual


def _rollout_fields(plan: Plan, state: State) -> dict[str, Any]:
    """The shape of a rollout."""
    return {
        "num_envs": plan.config.actors.num_envs,
        "rollout_length": plan.config.actors.rollout_length or state.env_spec.horizon,
        "fragments": fragments(plan, state),
    }


def _address(plan: Plan, state: State, work: str) -> dict[str, Any]:
    """The fields that every task has, for the first attempt."""
    return {
        "id": keys.task_id(plan.run, state.round, work),
        "run": plan.run,
        "round": state.round,
        "output": keys.output_prefix(state.round, work),
        "timeout_s": 0.0,
        "seed": plan.config.seed,
        "inline_objects": state.round_placement is not None and state.round_placement.inline_objects,
    }


def _names(like: Order, work: str) -> dict[str, str]:
    """The fields by which the work's task differs from another task of the round."""
    return {"id": keys.task_id(like.run, like.round, work), "output": keys.output_prefix(like.round, work)}


def _learning(plan: Plan) -> dict[str, Any]:
    settings = msgspec.to_builtins(plan.config.algorithm)
    hyperparameters: Hyperparameters = {name: value for name, value in settings.items() if value is not None}
    return {"algorithm": hyperparameters.pop("name"), "hyperparameters": hyperparameters}


def _team(state: State) -> Team:
    if state.team is None:
        raise ValueError("the team is known only after the task was looked at")
    return state.team


_PHASES: dict[Phase, Callable[[Plan, State], list[PlannedTask]]] = {
    "describe": _describe,
    "initialise": _initialise,
    "sample": _sampling,
    "learn": _learning_now,
    "regroup": _regroup,
    "trial": _trials,
    "final": _final,
    "absolute": _absolute,
}
