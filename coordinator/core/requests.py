"""The requests of tasks, from plan and state alone, composed of the parts of `marless.functions.messages`."""

from typing import TypedDict

import msgspec

from marless.coordinator.core import controller, rounds
from marless.coordinator.core.rounds import REGROUP, WHOLE, begun_episodes, locations_after_learning, team_of
from marless.coordinator.core.sides import Side
from marless.coordinator.core.state import Plan, State
from marless.coordinator.rules.sharing import BASES
from marless.functions import keys
from marless.functions.environments.base import EnvTask
from marless.functions.messages import learner
from marless.functions.messages.actor import DescribeTask, Match, Recorded, SampleTask, Sampling
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.message import Ref
from marless.functions.messages.order import Address, LanguageModel, ResourceRef
from marless.functions.messages.team import Team
from marless.functions.resources.settings import identity


class _Order(TypedDict):
    address: Address
    resources: dict[str, ResourceRef]
    model: LanguageModel | None


def _order(plan: Plan, state: State, work: str, *, makes_environments: bool) -> _Order:
    refs = resources(plan) if makes_environments else {}
    return _Order(address=address(plan, state, work), resources=refs, model=plan.inputs.language_model)


def address(plan: Plan, state: State, work: str) -> Address:
    """The address of a task of the round in flight."""
    return Address(
        id=keys.task_id(plan.run, state.round, work),
        run=plan.run,
        round=state.round,
        output=keys.output_prefix(state.round, work),
        seed=plan.config.seed,
    )


def resources(plan: Plan) -> dict[str, ResourceRef]:
    """Return the resources that environments of the run may ask, by name."""
    return {
        name: ResourceRef(identity=identity(name, resource), keep=resource.keep)
        for name, resource in plan.config.resources.items()
    }


def sampling(plan: Plan, state: State, rollouts: tuple[int, ...] = ()) -> Sampling:
    """Return the sampling settings of these rollouts of the round in flight."""
    dataset, length = plan.inputs.dataset, plan.config.actors.rollout_length or state.env_spec.horizon
    return Sampling(
        environment=plan.config.task,
        rollouts=rollouts,
        num_envs=plan.config.actors.num_envs,
        rollout_length=length,
        copies=plan.config.algorithm.copies,
        recorded=Recorded(dataset=dataset, first=state.env_steps // length) if dataset else None,
        fragments=rounds.fragments(plan, state),
        unfinished=begun_episodes(state, rollouts),
    )


def learning(plan: Plan, state: State) -> learner.Learning:
    """The algorithm and its settings."""
    settings = msgspec.to_builtins(plan.config.algorithm.sized(rounds.rollout_steps(plan, state)))
    hyperparameters: learner.Hyperparameters = {name: value for name, value in settings.items() if value is not None}
    name = plan.config.algorithm.name
    del hyperparameters["name"]
    return learner.Learning(spec=state.env_spec, algorithm=name, hyperparameters=hyperparameters, base=plan.inputs.base)


def training(plan: Plan, state: State, newest: learner.Past) -> learner.Learning:
    """The algorithm and its settings, with the rounds before `newest` in the replay buffer."""
    past = rounds.replayed_rounds(plan, state, newest)
    rows, micro_batch = plan.config.sharing.rows, plan.config.pipeline.micro_batch
    return msgspec.structs.replace(learning(plan, state), rows=rows, past=past, micro_batch=micro_batch)


def describe(plan: Plan, state: State) -> DescribeTask:
    """The task that looks at the env task."""
    return DescribeTask(
        **_order(plan, state, "describe", makes_environments=True),
        environment=plan.config.task,
        evaluated=plan.config.evaluated_task if plan.config.evaluation.options else None,
    )


def initialise(plan: Plan, state: State) -> learner.InitialiseTask:
    """The task that makes the networks of round 0."""
    return learner.InitialiseTask(
        **_order(plan, state, "initialise", makes_environments=False),
        team=team_of(state),
        learning=learning(plan, state),
        rank=plan.config.base.rank if plan.inputs.base else 0,
    )


def sample(plan: Plan, state: State) -> SampleTask:
    """Return the common fields of the round's sampling tasks."""
    return SampleTask(
        **_order(plan, state, "sample", makes_environments=True),
        team=team_of(state),
        sampling=sampling(plan, state),
        policies=() if plan.inputs.dataset else state.policies,
        behaviour=rounds.behaviour(plan, state),
    )


def match(state: State, template: SampleTask, side: Side, position: int) -> Match:
    """A match of one side against the league's checkpoint at `position`."""
    assert state.league is not None
    checkpoint, greedy = state.league.checkpoints[position], template.behaviour.kind != "sample"
    return Match(agents=side.agents, team=checkpoint.team, policies=checkpoint.policies, greedy=greedy)


def learn(
    plan: Plan, state: State, learned: learner.Past, tensors: tuple[Ref, ...], refs: tuple[Ref, ...] = ()
) -> learner.LearnTask:
    """Return the common fields of learning tasks that read `tensors` and learn from the round `learned`."""
    return learner.LearnTask(
        **_order(plan, state, "learn", makes_environments=False),
        team=team_of(state),
        learning=training(plan, state, learned),
        stages=(),
        groups=(),
        rollouts=tuple(range(learned.rollouts)),
        trajectories=learned.trajectories,
        age=state.round - learned.round,
        state=refs,
        tensors=tensors,
        progress=rounds.progress(plan, state) if rounds.scheduled(plan) else 0.0,
    )


def whole(plan: Plan, state: State) -> learner.WholeTask:
    """The task that samples and learns the rounds in flight."""
    count = rounds.rounds_together(plan, state)
    algorithm = plan.config.algorithm
    order = _order(plan, state, WHOLE, makes_environments=True)
    # A resumed run may take another number of rounds at once while an attempt at the earlier number still writes.
    output = keys.output_prefix(state.round, f"{WHOLE}-{count:03d}")
    order["address"] = msgspec.structs.replace(order["address"], output=output)
    return learner.WholeTask(
        **order,
        team=team_of(state),
        sampling=sampling(plan, state, tuple(range(state.controller.rollouts))),
        learning=msgspec.structs.replace(
            training(plan, state, rounds.sampled_round(state)),
            summaries=controller.summaries(plan.config, state.controller),
            updates=algorithm.updates_per_round,
        ),
        behaviours=tuple(rounds.behaviour(plan, state, index) for index in range(count)),
        state=state.refs(set(state.parts)),
        progress=tuple(rounds.progress(plan, state, index) for index in range(count)) if rounds.scheduled(plan) else (),
        replayed_steps=algorithm.replayed_steps,
    )


def regroup(plan: Plan, state: State) -> learner.RegroupTask:
    """The task that makes the networks of the proposed team."""
    proposal, team = state.proposal, team_of(state)
    assert proposal is not None
    objects, parts = locations_after_learning(plan, state)
    leaving = {team.groups[agent] for agent, group in enumerate(proposal.team.groups) if group in proposal.bases}
    old = {keys.group_name(group) for group in leaving}
    positions = sorted({index for part, index in parts.items() if part.split("/")[1] in old})
    # Only networks that are merged learn from the round's data, which is played again where it is not stored.
    merges = any(len(team.origins(proposal.team, group)) > 1 for group in proposal.bases)
    sharing, trajectories = plan.config.sharing, rounds.trajectories(state) if merges else ()
    plays = merges and not trajectories
    rollouts = sampling(plan, state, tuple(range(state.controller.rollouts)))
    return learner.RegroupTask(
        **_order(plan, state, REGROUP, makes_environments=True),
        team=team,
        target=proposal.team,
        sampling=msgspec.structs.replace(rollouts, recorded=None, unfinished=rollouts.unfinished if plays else ()),
        learning=learning(plan, state),
        bases=proposal.bases,
        trajectories=trajectories,
        policies=state.policies if plays else (),
        behaviour=rounds.behaviour(plan, state),
        state=tuple(objects[index] for index in positions),
        distil_steps=sharing.distil_steps if BASES[sharing.base].distils else 0,
    )


def evaluate(
    plan: Plan,
    state: State,
    environment: EnvTask,
    stream: str,
    policies: tuple[Ref, ...],
    team: Team | None,
    side: Side | None,
) -> EvaluateTask:
    """Return the common fields of tasks that play the stream's episodes. `team` is by default the present one."""
    return EvaluateTask(
        **_order(plan, state, stream, makes_environments=True),
        environment=environment,
        team=team or team_of(state),
        policies=policies,
        stream=stream,
        part=0,
        episodes=0,
        side=side.number if side else None,
        greedy=plan.config.evaluation.greedy,
    )
