"""The evaluator function: policies to the returns of whole episodes."""

import numpy as np

from functions.contract import BadRequest, EvaluateReply, EvaluateTask
from functions.environments import registry
from functions.environments.base import EnvironmentFault, EnvSpec
from functions.episodes import Episodes, summary
from functions.evaluator.episodes import play
from functions.policies import Policy
from functions.ports import Blobs
from functions.randomness import generator
from functions.serving import Objects, read, serve

# Copies played side by side; more would not be faster.
BLOCK = 160


def handle(body: bytes, blobs: Blobs) -> bytes:
    """Answers an encoded `EvaluateTask`."""
    return serve(body, blobs, {EvaluateTask: evaluate})


def evaluate(task: EvaluateTask, blobs: Blobs) -> tuple[Objects, EvaluateReply]:
    """Plays the task's episodes in blocks, each from an address of its own."""
    weights = read(blobs, task.policies)
    environment = registry.make(task.environment, min(BLOCK, task.episodes))
    try:
        policy = Policy(environment.spec, task.team, weights)
        blocks = -(-task.episodes // environment.num_envs)
        played: list[Episodes] = []
        for block in range(blocks):
            address = (task.seed, "evaluate", task.stream, task.round, task.part, block)
            count = min(environment.num_envs, task.episodes - block * environment.num_envs)
            rng, luck = generator(*address), generator(*address, "opponents")
            played.append(play(environment, policy, rng, task.greedy, count, luck))
        _, agent_means, env_metrics = summary(played)
        returns = _returns(environment.spec, task.side, played)
        if len(returns) != task.episodes:
            missing, horizon = task.episodes - len(returns), environment.spec.horizon
            raise EnvironmentFault(
                f"{task.environment.name}: {missing} episodes are longer than its horizon, {horizon}"
            )
    finally:
        environment.close()
    return [], EvaluateReply(returns=returns, agent_returns=agent_means, env_metrics=env_metrics)


def _returns(spec: EnvSpec, side: int | None, played: list[Episodes]) -> tuple[float, ...]:
    """One per episode: the sum over all agents, or over those on `side`; raises `BadRequest` when nobody is."""
    by_agent = np.concatenate([part.agent_returns() for part in played])
    if side is not None:
        if side not in spec.sides:
            raise BadRequest(f"the task has no side {side}")
        by_agent = by_agent[:, np.array(spec.sides) == side]
    return tuple(by_agent.sum(axis=1).tolist())
