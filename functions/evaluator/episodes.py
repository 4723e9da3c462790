"""Whole episodes with fixed policies, for measuring and not for learning."""

import numpy as np

from functions.actor.rollout import draws
from functions.environments.base import ActionArray, FloatArray, Observation, VectorEnvironment
from functions.episodes import Episodes
from functions.policies import Policy, as_environment_actions


def play(
    environment: VectorEnvironment, policy: Policy, rng: np.random.Generator, greedy: bool, count: int
) -> Episodes:
    """One whole episode in each of the first `count` copies; what a copy plays after its first end is not counted.

    `rng` gives the start states first and then, unless `greedy`, the draws of actions.
    """
    spec, copies = environment.spec, environment.copies
    episodes = Episodes(copies, len(spec.agents))
    seen = environment.reset(rng)
    uniforms = None if greedy else draws(spec, spec.horizon, copies, rng)
    # Not the first `count` to end: short episodes end first.
    running = np.arange(copies) < count
    for t in range(spec.horizon):
        actions = policy.greedy(seen) if uniforms is None else _sampled(policy, seen, t, uniforms)
        step = environment.step(as_environment_actions(actions))
        episodes.add(step, running)
        running &= ~step.ended
        if not running.any():
            break
        seen = step.observation
    return episodes


def _sampled(policy: Policy, seen: Observation, t: int, uniforms: tuple[FloatArray, ...]) -> tuple[ActionArray, ...]:
    return policy.sample(seen, tuple(block[t] for block in uniforms)).actions
