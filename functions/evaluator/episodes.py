"""Whole episodes with fixed policies, for measuring and not for learning."""

import numpy as np

from functions.environments.base import FloatArray, VectorEnvironment
from functions.episodes import Episodes
from functions.policies import Player, Policy, draws


def play(
    environment: VectorEnvironment,
    policy: Policy,
    rng: np.random.Generator,
    greedy: bool,
    count: int,
    luck: np.random.Generator | None = None,
) -> Episodes:
    """One whole episode in each of the first `count` copies; what a copy plays after its first end is not counted.

    `rng` gives the start states first and then, unless `greedy`, the draws of actions; `luck` those of agents that act
    at random.
    """
    spec, num_envs = environment.spec, environment.num_envs
    episodes = Episodes(num_envs, len(spec.agents))
    seen = environment.reset(rng)
    noise = None if greedy else draws(spec, spec.horizon, num_envs, rng)
    chance = draws(spec, spec.horizon, num_envs, luck) if luck is not None and policy.by_chance else noise
    player = Player(policy, num_envs)
    # Not the first `count` to end: short episodes end first.
    running = np.arange(num_envs) < count
    for t in range(spec.horizon):
        choice = player.act(seen, _at(noise, t), _at(chance, t))
        step = environment.step(choice.played)
        episodes.add(step, running)
        running &= ~step.ended
        if not running.any():
            break
        player.forget(step.ended)
        seen = step.observation
    return episodes


def _at(blocks: tuple[FloatArray, ...] | None, t: int) -> tuple[FloatArray, ...] | None:
    """The noise of step `t`."""
    return None if blocks is None else tuple(block[t] for block in blocks)
