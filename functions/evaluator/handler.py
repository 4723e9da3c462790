"""The evaluator function: returns of whole episodes of given policies."""

import numpy as np

from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvSpec, FloatArray, VectorEnvironment
from marless.functions.episode_returns import Episodes, summary
from marless.functions.errors import BadRequest
from marless.functions.messages.evaluator import EvaluateReply, EvaluateTask
from marless.functions.policies import Player, Policy, draws
from marless.functions.randomness import generator
from marless.functions.serving import Objects, read, serve
from marless.functions.storage_port import Blobs

# Environments stepped together. More would not be faster.
BLOCK = 160


def handle(body: bytes, blobs: Blobs) -> bytes:
    """Answers an encoded `EvaluateTask`."""
    return serve(body, blobs, {EvaluateTask: evaluate})


def evaluate(task: EvaluateTask, blobs: Blobs) -> tuple[Objects, EvaluateReply]:
    """Plays the task's episodes in blocks. Each block has its own random address."""
    weights = read(blobs, task.policies)
    environment = registry.make(task.environment, min(BLOCK, task.episodes))
    try:
        policy = Policy(environment.spec, task.team, weights)
        blocks = -(-task.episodes // environment.num_envs)
        episodes_by_block: list[Episodes] = []
        for block in range(blocks):
            address = (task.address.seed, "evaluate", task.stream, task.address.round, task.part, block)
            count = min(environment.num_envs, task.episodes - block * environment.num_envs)
            rng, opponent_rng = generator(*address), generator(*address, "opponents")
            episodes_by_block.append(play(environment, policy, rng, task.greedy, count, opponent_rng))
        _, agent_means, env_metrics = summary(episodes_by_block)
        returns = _returns(environment.spec, task.side, episodes_by_block)
        if len(returns) != task.episodes:
            missing, horizon = task.episodes - len(returns), environment.spec.horizon
            raise EnvironmentFault(
                f"{task.environment.name}: {missing} episodes are longer than its horizon, {horizon}"
            )
    finally:
        environment.close()
    return [], EvaluateReply(returns=returns, agent_returns=agent_means, env_metrics=env_metrics)


def play(
    environment: VectorEnvironment,
    policy: Policy,
    rng: np.random.Generator,
    greedy: bool,
    count: int,
    opponent_rng: np.random.Generator | None = None,
) -> Episodes:
    """One whole episode in each of the first `count` environments. Steps after its end are not counted.

    `rng` draws the start states and then, unless `greedy`, the noise of the actions. `opponent_rng` draws the noise of
    agents that act at random.
    """
    spec, num_envs = environment.spec, environment.num_envs
    episodes = Episodes(num_envs, len(spec.agents))
    observation = environment.reset(rng)
    noise = None if greedy else draws(spec, spec.horizon, num_envs, rng)
    chance = (
        draws(spec, spec.horizon, num_envs, opponent_rng) if opponent_rng is not None and policy.by_chance else noise
    )
    player = Player(policy, num_envs)
    # Counting the first `count` episodes that end would favour short episodes.
    running = np.arange(num_envs) < count
    for t in range(spec.horizon):
        step = environment.step(player.act(observation, _at(noise, t), _at(chance, t)).env_actions)
        episodes.add(step, running)
        running &= ~step.ended
        if not running.any():
            break
        player.forget(step.ended)
        observation = step.observation
    return episodes


def _returns(spec: EnvSpec, side: int | None, episodes_by_block: list[Episodes]) -> tuple[float, ...]:
    """Return one return per episode: the sum over all agents or over side `side`. Raises `BadRequest` for an unknown
    side."""
    by_agent = np.concatenate([block.agent_returns() for block in episodes_by_block])
    if side is not None:
        if side not in spec.sides:
            raise BadRequest(f"the task has no side {side}")
        by_agent = by_agent[:, np.array(spec.sides) == side]
    return tuple(by_agent.sum(axis=1).tolist())


def _at(blocks: tuple[FloatArray, ...] | None, t: int) -> tuple[FloatArray, ...] | None:
    return None if blocks is None else tuple(block[t] for block in blocks)
