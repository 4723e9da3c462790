"""Sharing switched on and off during a run, by the real driver on scripted functions."""

import math

import msgspec
import numpy as np
import pytest
from simulated import World, answered, failed, make_plan, said

from marless.coordinator.core.controller import ControllerState, Proposal, accept_proposal
from marless.coordinator.core.round_nodes import learns
from marless.coordinator.core.rounds import agents_learned_from
from marless.coordinator.placement.placement_rules import list_overhead
from marless.functions.algorithms.ppo.specs import PPO_STAGES
from marless.functions.codec import pack_table
from marless.functions.keys import agent_name
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.evaluator import EvaluateReply, EvaluateTask
from marless.functions.messages.learner import LearnReply, LearnTask, RegroupTask, WholeReply, WholeTask
from marless.functions.messages.team import Team

# Every full window flips: no gradient of normalised returns is near 100.
DYNAMIC = (
    "trend.rule=paper",
    "trend.gamma=100.0",
    "trend.window=3",
    "sharing.rule=dynamic",
    "sharing.start=apart",
    "stop.rounds=8",
)


def alike():
    return {f"behaviour/{agent_name(agent)}": pack_table(np.full((4, 3), 1 / 3)) for agent in (0, 1)}


def alike_replies(new=-1.0, old=-1.0):
    """A script with agents that act identically, and with trials that return `new` and `old`."""

    def script(function, request):
        # The first round is worse than the others, so the run has gained ten points.
        report = answered(function, request, returns=-11.0 if request.address.round == 0 else -1.0)
        done = said(report)
        match request:
            case LearnTask():
                reply = LearnReply(metrics={}, tables=alike())
            case WholeTask():
                reply = WholeReply(samples=done.reply.samples, learns=(LearnReply(tables=alike()),) * request.rounds)
            case EvaluateTask() if "/trial/new/" in request.address.id:
                reply = EvaluateReply(returns=(new,) * request.episodes)
            case EvaluateTask() if "/trial/old/" in request.address.id:
                reply = EvaluateReply(returns=(old,) * request.episodes)
            case _:
                reply = done.reply
        body = msgspec.json.encode(msgspec.structs.replace(done, reply=reply))
        return [msgspec.structs.replace(report, body=body)]

    return script


@pytest.mark.parametrize(("rows", "agents"), [("pooled", 2), ("member", 1)])
def test_learners_are_predicted_by_rows_they_learn(rows, agents):
    plan = make_plan('sharing.groups=[["a", "b"]]', f"sharing.rows={rows}", "stop.rounds=1", "actors.rollouts=3")
    state = World(plan, lambda function, request: [answered(function, request)]).finish()
    # By hand: 3 rollouts of 2 environments and 5 steps.
    [learner] = learns(plan, msgspec.structs.replace(state, phase="round", slots={}), 0)
    assert learner.item.size == agents * 3 * 2 * 5
    assert learner.request().learning.rows == rows
    assert agents_learned_from(plan, state, [0]) == agents


def events(world):
    return [(line.round, line.event) for line in world.journal if line.event]


@pytest.mark.parametrize(
    ("rule", "switched", "groups"),
    [
        ("dynamic", [(3, "shared"), (6, "split")], [2, 2, 2, 1, 1, 1, 2, 2]),
        ("lasting", [(3, "shared")], [2, 2, 2, 1, 1, 1, 1, 1]),
    ],
)
def test_a_full_window_switches_sharing_on_or_off(rule, switched, groups):
    world = World(make_plan(*DYNAMIC, f"sharing.rule={rule}", "sharing.trial=false"), alike_replies())
    world.finish()
    assert events(world) == switched
    assert [line.team for line in world.journal] == [(0, number - 1) for number in groups]
    assert [line.groups for line in world.journal] == groups


def test_trial_plays_learned_task_and_evaluation_its_options():
    plan = make_plan(*DYNAMIC, "task.options.horizon=5", "evaluation.options.horizon=9", "evaluation.every=2")
    world = World(plan, alike_replies())
    world.finish()
    horizons = {"evaluate": set(), "trial": set(), "final": set(), "absolute": set()}
    for request in world.invoker.asked:
        match request:
            case EvaluateTask():
                horizons[request.address.id.split("/")[2]].add(request.environment.options["horizon"])
            case SampleTask():
                assert request.sampling.environment.options["horizon"] == 5
    assert horizons == {"evaluate": {9}, "trial": {5}, "final": {9}, "absolute": {9}}


ROLES = ("sharing.rule=roles", "stop.rounds=8", "evaluation.every=1000", "actors.rollouts=2")


def role_replies(roles):
    """A script of learners that report errors: models of a role add nothing on it, and 9 to errors of 1 on others."""

    def script(function, request):
        report = answered(function, request)
        done = said(report)
        if isinstance(request, LearnTask) and "rewards" in request.learning.summaries:
            tables = {}
            for agent, group in enumerate(request.team.groups):
                members = [other for other, of in enumerate(request.team.groups) if of == group]
                rows = [np.full(8, 1.0 + 9.0 * (roles[agent] != roles[other])) for other in members]
                tables[f"rewards/{agent_name(agent)}"] = pack_table(np.array(rows) + 1e-3 * np.arange(8))
            done = msgspec.structs.replace(done, reply=LearnReply(tables=tables))
        return [msgspec.structs.replace(report, body=msgspec.json.encode(done))]

    return script


@pytest.mark.parametrize("rule", ["roles", "shuffled:roles"])
def test_agents_of_different_roles_split_after_second_look(rule):
    world = World(make_plan(*ROLES, f"sharing.rule={rule}"), role_replies((0, 1)))
    state = world.finish()
    assert events(world) == [(2, "split")]
    assert [line.team for line in world.journal] == [(0, 0)] * 2 + [(0, 1)] * 6
    split = next(request for request in world.invoker.asked if isinstance(request, RegroupTask))
    assert (split.bases, split.target.groups) == ({0: 0, 1: 0}, (0, 1))
    assert not any("/trial/" in request.address.id for request in world.invoker.asked)
    assert world.missing(state) == set()


def test_agents_of_one_role_are_checked_less_often():
    world = World(make_plan(*ROLES, "stop.rounds=14"), role_replies((0, 0)))
    world.finish()
    assert events(world) == []
    asked = {
        request.address.round
        for request in world.invoker.asked
        if isinstance(request, LearnTask) and "rewards" in request.learning.summaries
    }
    # By hand: pauses of 0, 0, 0, 1, 1, 1, 1 and 2 rounds after the looks.
    assert sorted(asked) == [0, 1, 2, 3, 5, 7, 9, 11]


def test_regrouping_reads_this_round_and_feeds_next_round():
    world = World(make_plan(*DYNAMIC, "sharing.trial=false"), alike_replies())
    state = world.finish()
    share, split = [request for request in world.invoker.asked if isinstance(request, RegroupTask)]
    assert (share.address.round, share.bases, share.target.groups) == (2, {0: 0}, (0, 0))
    assert {ref.key.split("/")[1] for ref in share.state} == {"000002"}
    assert share.trajectories and share.distil_steps == 200
    assert (split.address.round, split.bases, split.target.groups) == (5, {0: 0, 1: 0}, (0, 1))
    samples = [request for request in world.invoker.asked if isinstance(request, SampleTask)]
    assert [ref.key for ref in samples[3].policies] == ["rounds/000002/team.policies.safetensors"]
    assert samples[3].team.groups == (0, 0)
    assert world.missing(state) == set()


def test_trial_accepts_team_that_is_no_worse():
    world = World(make_plan(*DYNAMIC, "stop.rounds=4"), alike_replies(new=-1.0, old=-1.0))
    world.finish()
    new, old = [request for request in world.invoker.asked if "/trial/" in request.address.id][:2]
    assert (new.stream, new.part, new.address.round, new.episodes) == (
        old.stream,
        old.part,
        old.address.round,
        old.episodes,
    )
    assert (new.team.groups, old.team.groups) == ((0, 0), (0, 1))
    assert events(world) == [(3, "shared")]
    assert world.journal[2].trial_episodes == new.episodes


def test_worse_team_is_rejected_with_its_objects():
    world = World(make_plan(*DYNAMIC), alike_replies(new=-9.0, old=-1.0))
    state = world.finish()
    assert events(world) == [(3, "rejected")]
    assert state.team.groups == (0, 1)
    assert not any("/team." in key for key in world.storage)
    assert world.missing(state) == set()


@pytest.mark.parametrize("rollouts", [1, 5])
def test_next_trial_waits_after_failures_cost_two_percent(rollouts):
    settings = (*DYNAMIC, "stop.rounds=140", "sharing.trial_episodes=2", f"actors.rollouts={rollouts}")
    world = World(make_plan(*settings, "evaluation.every=1000"), alike_replies(new=-9.0, old=-1.0))
    state = world.finish()
    overhead = list_overhead(world.plan.prices, 2, PPO_STAGES, "standard")
    # By hand: each team of a trial plays 2 episodes of 5 steps, and 10 steps are a rollout.
    trial, round_ = overhead + 2, overhead + rollouts
    expected = [3] + [math.ceil(found * trial / (0.02 * round_)) for found in range(1, 4)]
    assert events(world) == [(number, "rejected") for number in expected if number <= 140]
    assert state.controller.training_cost == pytest.approx(140 * round_)
    assert state.controller.rejected_trials_cost == pytest.approx(len(events(world)) * trial)


def test_successful_trial_lets_next_begin_immediately():
    controller = ControllerState(training_cost=100.0, rejected_trials_cost=30.0)
    proposal = Proposal(kind="share", team=Team(groups=(0, 0), identity=True), bases={0: 0})
    assert accept_proposal(controller, proposal).rejected_trials_cost == 0.0


def test_trial_episodes_are_on_bill():
    plain, tried = (
        World(make_plan(*DYNAMIC, "stop.rounds=4", *more), alike_replies()) for more in (["sharing.trial=false"], [])
    )
    states = [world.finish() for world in (plain, tried)]
    trials = sum("/trial/" in request.address.id for request in tried.invoker.asked)
    assert trials >= 2
    assert states[1].meter.evaluator.invocations - states[0].meter.evaluator.invocations == trials


def test_absolute_metric_uses_best_team_with_its_groups():
    def script(function, request):
        # The policies after two rounds are the best. Sharing comes after the third.
        best = isinstance(request, EvaluateTask) and request.stream == "evaluate" and request.address.round == 2
        [report] = alike_replies()(function, request)
        if not best:
            return [report]
        done = said(report)
        body = msgspec.json.encode(
            msgspec.structs.replace(done, reply=EvaluateReply(returns=(5.0,) * request.episodes))
        )
        return [msgspec.structs.replace(report, body=body)]

    world = World(make_plan(*DYNAMIC, "sharing.trial=false", "stop.rounds=5"), script)
    world.finish()
    absolute = [request for request in world.invoker.asked if "/absolute/" in request.address.id]
    assert {request.team.groups for request in absolute} == {(0, 1)}
    assert {ref.key for request in absolute for ref in request.policies} <= set(world.storage)


@pytest.mark.parametrize("placement", ["split", "fused", "packed", "whole", "auto"])
@pytest.mark.parametrize("inline_objects", ["false", "true"])
def test_every_placement_comes_to_the_same_groups(placement, inline_objects):
    settings = (f"placement.rule={placement}", f"placement.inline_objects={inline_objects}")
    world = World(make_plan(*DYNAMIC, "sharing.trial=false", *settings), alike_replies())
    state = world.finish()
    assert [line.team for line in world.journal] == [(0, 1)] * 3 + [(0, 0)] * 3 + [(0, 1)] * 2
    assert world.missing(state) == set()


# The driver is killed after every n-th step: few in the quick tests, more under conformance.
FEW_KILLS, MANY_KILLS = 13, pytest.param(3, marks=pytest.mark.conformance)


@pytest.mark.parametrize("step", [900, pytest.param(300, marks=pytest.mark.conformance)])
def test_proposal_beyond_cap_is_abandoned_and_training_continues(step):
    free = World(make_plan(*DYNAMIC), alike_replies()).finish()
    assert free.round == 8

    def teams(cap):
        world = World(make_plan(*DYNAMIC, "stop.rounds=200", f"stop.dollars={cap}"), alike_replies())
        return world.finish(), {line.event for line in world.journal}

    found = [teams(cap / 1e6) for cap in range(400, 4000, step)]
    assert all(state.status == "finished" for state, _ in found)
    assert any("unaffordable" in happened for _, happened in found)


@pytest.mark.parametrize("stride", [FEW_KILLS, MANY_KILLS])
@pytest.mark.parametrize("inline_objects", ["false", "true"])
@pytest.mark.parametrize("placement", ["auto", "whole", "split", "fused"])
def test_killed_drivers_give_the_same_run(placement, inline_objects, stride):
    placement_settings = (
        f"placement.rule={placement}",
        f"placement.inline_objects={inline_objects}",
        "checkpoint_every=3",
    )
    settings = (*DYNAMIC, *placement_settings, "stop.rounds=12")
    undisturbed = World(make_plan(*settings), alike_replies())
    end = undisturbed.finish()
    for kill in range(2, 70, stride):
        world = World(make_plan(*settings), alike_replies())
        for _ in range(2):
            driver = world.driver()
            for _ in range(kill):
                if not driver.step():
                    break
        state = world.finish()
        assert (state.controller, state.parts, state.durable_refs) == (end.controller, end.parts, end.durable_refs)
        assert [line.team for line in world.journal] == [line.team for line in undisturbed.journal]
        assert world.missing(state) == set()


@pytest.mark.parametrize("work", ["/team", "/trial/new/"])
@pytest.mark.parametrize("not_retryable", [True, False])
def test_failing_team_is_abandoned_and_training_continues(work, not_retryable):
    def script(function, request):
        return (
            [failed(function, request, again=not not_retryable)]
            if work in request.address.id
            else alike_replies()(function, request)
        )

    world = World(make_plan(*DYNAMIC), script)
    state = world.finish()
    assert (state.status, state.round) == ("finished", 8)
    assert events(world) == [(3, "skipped")]
    assert world.missing(state) == set()


def test_long_trials_are_played_in_evaluation_parts():
    settings = ("stop.rounds=4", "evaluation.episodes_per_invocation=100", "sharing.trial_episodes=800")
    world = World(make_plan(*DYNAMIC, *settings), alike_replies())
    world.finish()
    trials = [request for request in world.invoker.asked if "/trial/" in request.address.id]
    assert max(request.episodes for request in trials) == 100
    arms = [
        {(t.stream, t.part, t.episodes) for t in trials if f"/trial/{arm}/" in t.address.id} for arm in ("new", "old")
    ]
    assert arms[0] == arms[1] and len(arms[0]) == len(trials) // 2
