"""The actor function: collects trajectories with the given policies into one object, without torch."""

from collections.abc import Iterator
from contextlib import closing

from functions.actor.match import earlier_agents, mean_score, meet
from functions.actor.recorded import recorded_rollouts
from functions.actor.rollout import InBlocks, Rollout, collect, collect_side_by_side
from functions.contract import (
    BadRequest,
    Behaviour,
    DescribeReply,
    DescribeTask,
    RegroupTask,
    SampleReply,
    SampleTask,
    WholeTask,
)
from functions.data.trajectory import EARLIER, rollout_prefix
from functions.environments import registry
from functions.environments.base import VectorEnvironment
from functions.episodes import summary
from functions.policies import SAMPLE, Policy
from functions.ports import Blobs
from functions.serving import Objects, Tensors, read, serve

Playing = SampleTask | WholeTask | RegroupTask
"""The tasks that collect rollouts."""

# Environments of all rollouts that are stepped together; more would not be faster.
ROWS = 1024


def handle(body: bytes, blobs: Blobs) -> bytes:
    """Answers an encoded `DescribeTask` or `SampleTask`."""
    return serve(body, blobs, {DescribeTask: describe, SampleTask: sample})


def describe(task: DescribeTask, blobs: Blobs) -> tuple[Objects, DescribeReply]:
    """The env task's spec, returned by the actor because only actors need the environments installed."""
    return [], DescribeReply(spec=registry.spec(task.environment))


def sample(task: SampleTask, blobs: Blobs) -> tuple[Objects, SampleReply]:
    """Collects the task's rollouts into one object, which `functions.serving` stores."""
    if task.recorded:
        tensors, reply = recorded_rollouts(task, task.recorded, read(blobs, (task.recorded.dataset,)))
        return [("trajectory", tensors)], reply
    weights = read(blobs, task.policies)
    earlier = read(blobs, task.match_policies) if task.match else {}
    tensors, reply = play(task, weights, task.round, task.behaviour, earlier)
    return [("trajectory", tensors)], reply


def play(
    task: Playing, weights: Tensors, round_: int, behaviour: Behaviour = SAMPLE, earlier: Tensors | None = None
) -> tuple[Tensors, SampleReply]:
    """The trajectories of the task's rollouts in round `round_` with the policies in `weights`, and in a match those in
    `earlier`; pure.

    The bytes of a rollout do not depend on other rollouts. Raises `BadRequest` when rollouts are shorter than an
    episode, or agents do not support `behaviour`.
    """
    match = task.match if isinstance(task, SampleTask) else None
    if match is not None and isinstance(task, SampleTask):
        task, weights = meet(task, match, registry.spec(task.environment), weights, earlier or {})
    rollouts = list(_rollouts(task, weights, round_, behaviour))
    returns, _, env_metrics = summary([rollout.episodes for rollout in rollouts])
    by_rollout = tuple(tuple(rollout.episodes.agent_returns().sum(axis=0).tolist()) for rollout in rollouts)
    tensors: Tensors = {}
    for number, rollout in zip(task.rollouts, rollouts, strict=True):
        tensors |= rollout.tensors
        if match is not None:
            tensors[f"{rollout_prefix(number)}/{EARLIER}"] = earlier_agents(match)
    env_steps = task.rollout_length * task.num_envs * len(task.rollouts)
    score = None if match is None else mean_score(match, [rollout.episodes.agent_returns() for rollout in rollouts])
    reply = SampleReply(
        env_steps=env_steps, returns=returns, agent_returns=by_rollout, env_metrics=env_metrics, score=score
    )
    return tensors, reply


def _rollouts(task: Playing, weights: Tensors, round_: int, behaviour: Behaviour) -> Iterator[Rollout]:
    """The rollouts in order, collected side by side where the environment allows it."""
    waiting = task.rollouts
    while waiting:
        with closing(_environment(task, len(waiting))) as environment:
            _require_whole_episode(task, environment)
            policy = Policy(environment.spec, task.team, weights)
            together = environment.num_envs // task.num_envs
            rollouts, waiting = waiting[:together], waiting[together:]
            if together > 1 and isinstance(environment, InBlocks):
                yield from collect_side_by_side(
                    environment, policy, task.rollout_length, task.seed, round_, rollouts, behaviour
                )
            else:
                yield collect(environment, policy, task.rollout_length, task.seed, round_, rollouts[0], behaviour)


def _environment(task: Playing, rollouts: int) -> VectorEnvironment:
    """An environment for one rollout, or for as many of `rollouts` as fit side by side."""
    environment = registry.make(task.environment, task.num_envs)
    together = min(rollouts, ROWS // task.num_envs)
    if together < 2 or not isinstance(environment, InBlocks):
        return environment
    environment.close()
    return registry.make(task.environment, task.num_envs * together)


def _require_whole_episode(task: Playing, environment: VectorEnvironment) -> None:
    if task.rollout_length < environment.spec.horizon:
        raise BadRequest(
            f"actors.rollout_length is {task.rollout_length}, shorter than an episode of {task.environment.name}"
            f" ({environment.spec.horizon} steps)"
        )
