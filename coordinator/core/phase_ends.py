"""Start the next phase when all tasks of a phase are answered, and end a round. All functions are pure."""

import math
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from marless.coordinator.core import league_matches, opponents, round_records
from marless.coordinator.core.compatibility import incompatibility
from marless.coordinator.core.controller import (
    ControllerState,
    Decision,
    Proposal,
    accept_proposal,
    plan_first_round,
    plan_next_round,
    reject_proposal,
)
from marless.coordinator.core.planning import next_placement
from marless.coordinator.core.planning.next_placement import round_price
from marless.coordinator.core.round_graph import LOOKS
from marless.coordinator.core.rounds import (
    done_of,
    is_evaluated,
    locations_after_learning,
    locations_after_regrouping,
    remember_rounds,
    rollout_steps,
    spec_of,
    unfinished_episodes,
)
from marless.coordinator.core.sides import learning
from marless.coordinator.core.state import Best, Evaluated, Phase, Plan, State
from marless.coordinator.rules.sharing import judge, schedule
from marless.functions import keys
from marless.functions.codec import dataset_key
from marless.functions.messages.actor import DescribeReply
from marless.functions.messages.message import Ref


def follow(plan: Plan, state: State) -> State:
    """Return the state after the phase in flight. All its tasks must be answered."""
    return _FOLLOWING[state.phase](plan, state)


def _after_describe(plan: Plan, state: State) -> State:
    reply = done_of(state, "describe").reply
    assert isinstance(reply, DescribeReply)
    problem = incompatibility(plan.config, reply.spec, plan.inputs.opponents, plan.platform)
    dataset = plan.inputs.dataset
    if not problem and dataset is not None and dataset.key != dataset_key(reply.spec):
        problem = "offline.dataset: its dataset.json describes other agents, sizes or horizons than the task has now"
    if problem:
        return replace(state, slots={}, spec=reply.spec, status="failed", reason=problem)
    team = opponents.initial_team(plan.config, reply.spec, plan.inputs.opponents)
    return replace(state, phase="initialise", slots={}, spec=reply.spec, team=team)


def _after_initialise(plan: Plan, state: State) -> State:
    objects = done_of(state, "initialise").objects
    names = {f"{part}/{keys.group_name(group)}" for part in spec_of(plan).parts for group in state.groups}
    parts = {name: 0 if name.startswith("policy/") else 1 for name in sorted(names)}
    refs: tuple[Ref, ...] = (objects["policies"], objects["learner"])
    if plan.inputs.opponents and state.team:
        parts |= dict.fromkeys(opponents.parts(state.team, plan.inputs.opponents), len(refs))
        refs = (*refs, plan.inputs.opponents.policies)
    controller = plan_first_round(plan.config, len(state.env_spec.agents), round_price(plan, state))
    state = replace(state, slots={}, objects=refs, parts=parts, controller=controller)
    assert state.team is not None
    state = replace(state, league=league_matches.first(plan.config, state.env_spec, state.team, state.policies))
    return start_round(plan, state)


def start_round(plan: Plan, state: State) -> State:
    """The start of the coming round, with its placement chosen."""
    return replace(state, phase="round", round_placement=next_placement.place_round(plan, state))


def _after_round(plan: Plan, state: State) -> State:
    """End the round, or the run if its sampling policies have reached the target. In the second case the results of
    learning are dropped."""
    if (evaluation := round_records.evaluation_in_flight(plan, state)) is None:
        return _end_learning(plan, replace(state, garbage=()))
    state = _with_best(state, evaluation)
    target = plan.config.stop.return_
    if target is not None and evaluation.mean >= target:
        garbage = tuple(sorted({*state.garbage, *(ref.key for ref in state.round_refs), *state.call_keys}))
        return replace(state, phase="final", reason="return", slots={}, garbage=garbage)
    return _end_learning(plan, state)


def _with_best(state: State, evaluation: Evaluated, lead: float = 0.0) -> State:
    """Take these policies as the best, unless the former best's return is higher by at least `lead`.

    Only the former best's objects become garbage. If several sides learn, the newest policies are the best, because a
    high return may be due to weak opponents.
    """
    before = state.best
    assert state.env_spec is not None and state.team is not None
    is_contested = len(learning(state.env_spec, state.team)) > 1
    if before is not None and evaluation.mean <= before.mean - lead and not is_contested:
        return replace(state, garbage=())
    best = Best(round=evaluation.round, mean=evaluation.mean, team=state.team, policies=state.policies)
    following = replace(state, best=best)
    passed_keys = {ref.key for ref in before.policies} if before else set()
    return replace(following, garbage=tuple(sorted(passed_keys - needed_keys(following))))


def _end_learning(plan: Plan, state: State) -> State:
    """Every learner has answered: the round is over unless the controller proposes another team."""
    rounds = round_records.replies_by_round(plan, state)
    decisions = _decide_on(plan, state, rounds)
    last = decisions[-1]
    if last.proposal is None:
        return _end_rounds(plan, state, rounds, decisions, last.event)
    return replace(state, phase="regroup", proposal=last.proposal, decision=replace(last, proposal=None))


def _decide_on(plan: Plan, state: State, rounds: list[round_records.RoundReplies]) -> list[Decision]:
    assert state.team is not None
    decisions, controller, price = [], state.controller, round_price(plan, state)
    for number, round_ in enumerate(rounds, state.round):
        decision = plan_next_round(plan.config, state.env_spec, state.team, controller, round_.signals, number, price)
        decisions.append(decision)
        controller = decision.controller
    return decisions


def _after_regroup(plan: Plan, state: State) -> State:
    proposal = state.proposal
    assert proposal is not None
    objects, parts = locations_after_regrouping(plan, state)
    state = replace(state, proposal=replace(proposal, objects=objects, parts=parts))
    if proposal.margin is None:
        return end_with_proposal(plan, state, _ACCEPTED[proposal.kind])
    return replace(state, phase="trial")


def _after_trial(plan: Plan, state: State) -> State:
    proposal, sharing = state.proposal, plan.config.sharing
    assert proposal is not None and proposal.margin is not None
    new, old = (np.array(round_records.returns_of(state, f"trial/{arm}/{proposal.look:03d}")) for arm in ("new", "old"))
    differences = (*proposal.differences, *(new - old).tolist())
    look = proposal.look + 1
    looks = len(schedule(sharing.trial_episodes, LOOKS))
    verdict = judge(np.array(differences), proposal.margin, sharing.error, look, looks)
    state = replace(state, proposal=replace(proposal, differences=differences, look=look))
    if verdict == "more":
        return state
    return end_with_proposal(plan, state, _ACCEPTED[proposal.kind] if verdict == "commit" else "rejected")


_ACCEPTED = {"share": "shared", "split": "split"}


def end_with_proposal(plan: Plan, state: State, event: str) -> State:
    """Ends the round with its proposal accepted or not. Only a round that is alone in its function has one."""
    assert state.decision is not None
    return _end_rounds(plan, state, round_records.replies_by_round(plan, state), [state.decision], event)


def _end_rounds(
    plan: Plan, state: State, rounds: list[round_records.RoundReplies], decisions: list[Decision], event: str
) -> State:
    state = _with_ratings(plan, state, rounds)
    lines = round_records.round_lines(plan, state, rounds, decisions, event)
    (objects, parts), team, controller = locations_after_learning(plan, state), state.team, decisions[-1].controller
    proposal, is_counted = state.proposal, plan.config.evaluation.every_steps is not None and is_evaluated(plan, state)
    if proposal is not None and event in _ACCEPTED.values():
        objects, parts, team = proposal.objects, proposal.parts, proposal.team
        controller = accept_proposal(controller, proposal)
    elif proposal is not None:
        controller = _after_rejection(plan, state, proposal, controller)
    following = replace(
        state,
        round=lines[-1].round,
        env_steps=lines[-1].env_steps,
        evaluated=state.env_steps if is_counted else state.evaluated,
        objects=objects,
        parts=parts,
        team=team,
        controller=controller,
        proposal=None,
        decision=None,
        slots={},
        lines=lines,
        resource_calls={},
        past=remember_rounds(plan, state, len(rounds)),
        unfinished=unfinished_episodes(plan, state),
    )
    if following.league is not None and following.team is not None:
        league = league_matches.add_checkpoint(
            plan.config.league, following.league, following.round, following.team, following.policies
        )
        following = replace(following, league=league)
    before = {ref.key for ref in (*state.durable_refs, *state.round_refs)} | {*state.garbage, *state.call_keys}
    following = replace(following, garbage=tuple(sorted(before - needed_keys(following))))
    return start_round(plan, following)


def _with_ratings(plan: Plan, state: State, rounds: list[round_records.RoundReplies]) -> State:
    if state.league is None:
        return state
    match_of = league_matches.matches(plan.config, state.env_spec, state.league, state.round, state.controller.rollouts)
    return replace(state, league=league_matches.rate(state.league, match_of, rounds[0].samples))


def _after_rejection(plan: Plan, state: State, proposal: Proposal, controller: ControllerState) -> ControllerState:
    """Return the controller after a rejection, with the trial's list price. Both teams played equally many episodes."""
    steps = 2 * len(proposal.differences) * state.env_spec.horizon
    return reject_proposal(controller, round_price(plan, state).overhead, steps / rollout_steps(plan, state))


def needed_keys(state: State) -> set[str]:
    """Keys that the state or the last checkpoint refer to."""
    return {ref.key for ref in state.durable_refs} | set(state.checkpointed)


def _after_final(plan: Plan, state: State) -> State:
    """Continue with the absolute metric. The final policies are candidates for the best, too.

    The best of many evaluations is the best partly by chance, but the return of the final policies is not. So another
    evaluation's policies win only by more than a standard error (Breiman, Friedman, Olshen and Stone, "Classification
    and Regression Trees", 1984, choose a tree so). Not after `stop.return`, because an evaluation ended that run.
    """
    returns = round_records.returns_of(state, "final/")
    final = Evaluated(round=state.round, env_steps=state.env_steps, returns=returns)
    with_best = _with_best(state, final, 0.0 if state.reason == "return" else _error_of_difference(plan, state, final))
    garbage = tuple(sorted({*state.garbage, *with_best.garbage}))
    return replace(
        with_best,
        phase="absolute",
        slots={},
        final=returns,
        final_sides=round_records.side_returns_of(state, "final/"),
        final_env_metrics=round_records.env_metrics_of(state, "final/"),
        garbage=garbage,
    )


def _error_of_difference(plan: Plan, state: State, final: Evaluated) -> float:
    variance = float(np.var(final.returns, ddof=1))
    episodes = plan.config.evaluation_sizes(state.env_spec.horizon).episodes
    return math.sqrt(variance / episodes + variance / len(final.returns))


def _after_absolute(plan: Plan, state: State) -> State:
    return replace(
        state,
        slots={},
        absolute=round_records.returns_of(state, "absolute/"),
        absolute_sides=round_records.side_returns_of(state, "absolute/"),
        absolute_env_metrics=round_records.env_metrics_of(state, "absolute/"),
        status="finished",
    )


# The function that starts the next phase, by the phase that ends.
_FOLLOWING: dict[Phase, Callable[[Plan, State], State]] = {
    "describe": _after_describe,
    "initialise": _after_initialise,
    "round": _after_round,
    "regroup": _after_regroup,
    "trial": _after_trial,
    "final": _after_final,
    "absolute": _after_absolute,
}
