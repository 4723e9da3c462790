"""Whole episodes with fixed policies, for measuring and not for learning."""

import numpy as np

from functions.environments.base import VectorEnvironment
from functions.episodes import Episodes
from functions.policies import Player, Policy, draws


def play(
    environment: VectorEnvironment, policy: Policy, rng: np.random.Generator, greedy: bool, count: int
) -> Episodes:
    """One whole episode in each of the first `count` copies; what a copy plays after its first end is not counted.

    `rng` gives the start states first and then, unless `greedy`, the draws of actions.
    """
    spec, copies = environment.spec, environment.copies
    episodes = Episodes(copies, len(spec.agents))
    seen = environment.reset(rng)
    noise = None if greedy else draws(spec, spec.horizon, copies, rng)
    player = Player(policy, copies)
    # Not the first `count` to end: short episodes end first.
    running = np.arange(copies) < count
    for t in range(spec.horizon):
        choice = player.act(seen, None if noise is None else tuple(block[t] for block in noise))
        step = environment.step(choice.played)
        episodes.add(step, running)
        running &= ~step.ended
        if not running.any():
            break
        player.forget(step.ended)
        seen = step.observation
    return episodes
