"""The tasks of a round that is played before it runs, against the requests of a run."""

import dataclasses
import itertools
from functools import cache

import pytest
from driver import part_of_run
from msgspec.structs import replace
from simulated import World, make_plan

from marless.coordinator.core.league_matches import Checkpoint, LeagueState
from marless.coordinator.core.planning import next_placement
from marless.coordinator.core.round_graph import in_flight
from marless.coordinator.core.round_nodes import EXTRA_GETS
from marless.coordinator.core.state import NO_INPUTS, RunInputs
from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS
from marless.functions.messages.actor import Unfinished
from marless.functions.messages.learner import FrozenNetworks, LearnTask, past_objects
from marless.functions.messages.message import Ref
from marless.functions.messages.team import Team

SUMS = ("algorithm.epochs=1", "algorithm.num_minibatches=1", "pipeline.micro_batch=2")
REPLAY = ("algorithm.name=iql", "algorithm.batch_size=4", "algorithm.buffer_size=400")


@cache
def run(rule, *settings, inputs=NO_INPUTS):
    """The plan of a run of three rollouts, its state while round 1 is played, and all requests."""
    usual = ("algorithm.name=ippo", "actors.rollouts=3", "stop.rounds=2", "placement.chain=1")
    plan = dataclasses.replace(make_plan(*usual, f"placement.rule={rule}", *settings), inputs=inputs)
    world, states = World(plan), []
    world.finish(after=states.append)
    state = next(state for state in states if (state.round, part_of_run(state)) == (1, "sample"))
    return plan, replace(state, slots={}), world.invoker.asked


def ref(name):
    """An object that is too large to be kept by a function."""
    return Ref(key=name, sha256=name, size=1 << 40)


def fragments(plan, state):
    actors = replace(plan.config.actors, rollout_length=2)
    packs = ((0, 1, 2),) if plan.config.placement.rule == "whole" else ((0,), (1,), (2,))
    unfinished = tuple(Unfinished(rollouts=pack, episodes=ref(f"u{pack}")) for pack in packs)
    return dataclasses.replace(plan, config=replace(plan.config, actors=actors)), replace(state, unfinished=unfinished)


def dataset(plan, state):
    return dataclasses.replace(plan, inputs=RunInputs(dataset=ref("dataset"))), state


def league(plan, state):
    """A league with a checkpoint that has the policies of the round. Its one side plays no match in this round."""
    checkpoint = Checkpoint(round=0, team=state.team, policies=state.policies, ratings=(), scores=())
    settings = replace(plan.config.league, share=0.0)
    state = replace(state, league=LeagueState(interval=1, checkpoints=(checkpoint,), ratings=()))
    return dataclasses.replace(plan, config=replace(plan.config, league=settings)), state


CASES = {"alone": lambda plan, state: (plan, state), "fragments": fragments, "dataset": dataset, "league": league}


# A league needs actors.
@pytest.mark.parametrize(
    ("rule", "case"), [pair for pair in itertools.product(LEARNER_PLACEMENTS, CASES) if pair != ("whole", "league")]
)
def test_planner_counts_reads_of_playing_tasks(rule, case):
    plan, state = CASES[case](*run(rule)[:2])
    played = [task for task in next_placement.layout(plan, state).tasks(state.placement) if task.plays]
    nodes = [node for node in in_flight(plan, state) if node.item.kind in ("sample", "whole")]
    assert sum(task.number * task.reads for task in played) == sum(node.item.gets - EXTRA_GETS for node in nodes)
    assert sum(task.number for task in played) == len(nodes)


@pytest.mark.parametrize(
    "inputs", [NO_INPUTS, RunInputs(base=FrozenNetworks(networks=ref("base"), team=Team(groups=(0, 0, 0))))]
)
@pytest.mark.parametrize("settings", [(), REPLAY, SUMS], ids=["alone", "replay", "sums"])
@pytest.mark.parametrize("rule", [rule for rule in LEARNER_PLACEMENTS if rule != "whole"])
def test_planner_counts_reads_of_round_and_base(rule, settings, inputs):
    plan, state, asked = run(rule, *settings, inputs=inputs)
    learners = [task for task in next_placement.layout(plan, state).tasks(state.placement) if not task.plays]
    learned = [request for request in asked if isinstance(request, LearnTask) and request.address.round == 1]
    reads = sum(len(request.reads()) - len(past_objects(request.learning.past)) for request in learned)
    assert sum(task.number * task.reads for task in learners) == reads
    assert sum(task.number for task in learners) == len(learned)
