"""The networks of a new team, made from the networks of the old team.

In "Multi-Agent Reinforcement Learning with Serverless Computing" (SoCC 2025) agents share one member's policy for a
time and then continue with copies of it. The paper does not define the other learner state. Here:

* Split: if all members of a group come from one old group, it starts from a copy of that group's whole state, with
  optimiser moments and normaliser. No data is read or collected for it.
* Merge: if the members come from several old groups, the group starts from a copy of the base's state. The algorithm
  defines the changes in it (`Implementation.merge`).

All networks take the agent's one-hot, so shapes never change.
"""

from msgspec.structs import replace

from marless.functions.actor.handler import Rollouts
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.agent_inputs import members
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.algorithms.stage import Context
from marless.functions.algorithms.stage import Tensors as Known
from marless.functions.data import batch
from marless.functions.data.origins import read_sampled
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.learner.stages import require_finite
from marless.functions.messages.learner import RegroupReply, RegroupTask
from marless.functions.serving import Objects, Output, Tensors, read
from marless.functions.storage_port import Blobs


def regroup(task: RegroupTask, blobs: Blobs) -> tuple[Objects, RegroupReply]:
    """The parts of every group in `task.bases`. Raises `BadRequest` for an impossible change of team."""
    require_possible(task)
    parts = algorithms.algorithm(task.learning.algorithm).parts
    state = read(blobs, task.state)
    new: Tensors = {}
    for group, base in sorted(task.bases.items()):
        new |= copy_group(state, parts, base, group)
    metrics: dict[str, float] = {}
    if merges := [group for group in sorted(task.bases) if len(task.team.origins(task.target, group)) > 1]:
        context = _context(task, blobs, state, parts)
        code = algorithms.implementation(algorithms.algorithm(task.learning.algorithm))
        for group in merges:
            result = code.merge(context, task.target, group, task.bases[group], task.distil_steps)
            new |= result.tensors
            metrics |= {f"{name}/{group_name(group)}": value for name, value in result.metrics.items()}
    require_finite(new, "regrouping")
    policies = {name: array for name, array in new.items() if name.startswith("policy/")}
    learner = {name: array for name, array in new.items() if name not in policies}
    return [Output("policies", policies), Output("learner", learner)], RegroupReply(metrics=metrics)


def copy_group(state: Known, parts: tuple[str, ...], group: int, to: int) -> Tensors:
    """All parts of `group` under the name of `to`. Raises `BadRequest` when the state lacks one."""
    copies: Tensors = {}
    for part in parts:
        old, new = f"{part}/{group_name(group)}", f"{part}/{group_name(to)}"
        copy = {new + name[len(old) :]: state[name] for name in state if name == old or name.startswith(f"{old}/")}
        if not copy:
            raise BadRequest(f"the task's state holds no {old}")
        copies |= copy
    return copies


def require_possible(task: RegroupTask) -> None:
    """Raises `BadRequest` naming the first group that is impossible."""
    if not (task.team.identity and task.target.identity):
        raise BadRequest("a team can change only where its networks, old and new, take the agent's identity")
    if not len(task.team.groups) == len(task.target.groups) == len(task.learning.spec.agents):
        raise BadRequest(
            f"the task has {len(task.learning.spec.agents)} agents; team and target must group all of them"
        )
    for group in sorted({*task.target.groups, *task.bases}):
        if problem := _problem(task, group):
            raise BadRequest(f"group {group_name(group)} {problem}")


def _problem(task: RegroupTask, group: int) -> str:
    """Return the reason why a new group is impossible, or ''."""
    agents = members(task.target, group)
    if not agents or agents[0] != group:
        return "is no group of the new team, named after its first member"
    if len({task.learning.spec.class_of[agent] for agent in agents}) > 1:
        return "has agents of several classes, whose networks differ"
    if group not in task.bases:
        return "" if agents == members(task.team, group) else "is new and has no base"
    if task.bases[group] not in task.team.origins(task.target, group):
        return f"has the base {group_name(task.bases[group])}, which none of its members was in"
    return ""


def _context(task: RegroupTask, blobs: Blobs, state: Tensors, parts: tuple[str, ...]) -> Context[AlgorithmConfig]:
    """The round for `Implementation.merge`: every agent is a separate group, with the networks of its old group."""
    alone: Tensors = {}
    for group in task.bases:
        for agent in {*members(task.target, group), task.bases[group]}:
            alone |= copy_group(state, parts, task.team.groups[agent], agent)
    algorithm = algorithms.algorithm(task.learning.algorithm)
    return Context(
        spec=task.learning.spec,
        team=replace(task.team, groups=tuple(range(len(task.team.groups))), opponents=None),
        config=algorithms.configuration(algorithm, task.learning.hyperparameters).resolved(task.learning.spec),
        seed=task.address.seed,
        round=task.address.round,
        batch=batch.join(task.learning.spec, _trajectories(task, blobs), task.sampling.rollouts),
        tensors=alone,
    )


def _trajectories(task: RegroupTask, blobs: Blobs) -> Tensors:
    """The round's data. If the task names none, the rollouts are collected again as the actor did."""
    if task.trajectories:
        return read_sampled(blobs, task.trajectories, [task.address.round])
    return Rollouts(task, blobs).play(read(blobs, task.policies), task.address.round, task.behaviour).trajectories
