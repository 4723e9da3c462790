"""The actor function: policies and environments to one trajectory object. No torch on this path."""

from functions.actor.rollout import Rollout, collect
from functions.contract import BadRequest, DescribeReply, DescribeTask, SampleReply, SampleTask
from functions.environments import registry
from functions.episodes import summary
from functions.policies import Policy
from functions.ports import Blobs
from functions.serving import Objects, Tensors, read, serve


def handle(body: bytes, blobs: Blobs) -> bytes:
    """Answers an encoded `DescribeTask` or `SampleTask`."""
    return serve(body, blobs, {DescribeTask: describe, SampleTask: sample})


def describe(task: DescribeTask, blobs: Blobs) -> tuple[Objects, DescribeReply]:
    """Looks at the task; actors have the environments, so nobody else needs them."""
    return [], DescribeReply(spec=registry.spec(task.environment))


def sample(task: SampleTask, blobs: Blobs) -> tuple[Objects, SampleReply]:
    """Plays the task's units, each on its own, so that the bytes of a unit do not depend on its neighbours."""
    weights = read(blobs, task.policies)
    rollouts = [_play(task, weights, unit) for unit in task.units]
    returns, agent_means, scalars = summary([rollout.episodes for rollout in rollouts])
    tensors: Tensors = {}
    for rollout in rollouts:
        tensors |= rollout.tensors
    env_steps = task.steps * task.copies * len(task.units)
    return [("trajectory", tensors)], SampleReply(
        env_steps=env_steps, returns=returns, agent_returns=agent_means, scalars=scalars
    )


def _play(task: SampleTask, weights: Tensors, unit: int) -> Rollout:
    environment = registry.make(task.environment, task.copies)
    try:
        if task.steps < environment.spec.horizon:
            raise BadRequest(
                f"actors.steps is {task.steps}, shorter than an episode of {task.environment.name}"
                f" ({environment.spec.horizon} steps)"
            )
        policy = Policy(environment.spec, task.team, weights)
        return collect(environment, policy, task.steps, task.seed, task.round, unit)
    finally:
        environment.close()
