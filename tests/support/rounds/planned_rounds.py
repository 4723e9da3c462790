"""Rounds that are planned from numbers: a plan, and a state with a graph that has the tasks of a workload."""

import dataclasses
from dataclasses import dataclass
from functools import partial

from simulated import make_plan, promising

from marless.coordinator.core.controller import ControllerState
from marless.coordinator.core.planning.played_round import play
from marless.coordinator.core.rounds import spec_of
from marless.coordinator.core.state import NO_INPUTS, State
from marless.coordinator.placement.layout import Layout, RoundWorkload
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.messages.team import Team

# One step of an optimiser sums over a round.
ONE_STEP = ("algorithm.epochs=1", "algorithm.num_minibatches=1")


@dataclass(frozen=True)
class PlannedRound(RoundWorkload):
    """A round of IPPO, summed in micro-batches of `micro_batch` rollouts if that is not 0."""

    micro_batch: int = 0


def layout(workload, inputs=NO_INPUTS):
    """The tasks of the workload in each placement, in a run that is given `inputs`."""
    groups = tuple(group for group, number in workload.members.items() for _ in range(number))
    classes = (AgentClass("all", tuple(range(len(groups))), 3, 3),)
    spec = EnvSpec(tuple(f"a_{agent}" for agent in range(len(groups))), classes, workload.rollout_steps)
    settings = [f"pipeline.micro_batch={workload.micro_batch}", *(ONE_STEP if workload.micro_batch else ())]
    plan = make_plan("algorithm.name=ippo", f"pipeline.lag={workload.lag}", "actors.num_envs=1", *settings)
    plan = dataclasses.replace(promising(plan, concurrency=workload.width), inputs=inputs)
    workload = dataclasses.replace(workload, stages=spec_of(plan).stages)
    controller = ControllerState(rollouts=workload.rollouts)
    state = State(phase="round", spec=spec, team=Team(groups=groups), controller=controller)
    return Layout(workload, partial(play, plan, state, workload))
