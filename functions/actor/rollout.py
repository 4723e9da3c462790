"""Environments and policies to trajectories: the actor's work without storage or messages."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.actor.trajectory import Recorder
from functions.environments.base import FloatArray, Spec, VectorEnvironment
from functions.episodes import Episodes
from functions.policies import Policy, as_environment_actions
from functions.randomness import generator


@dataclass(frozen=True)
class Rollout:
    """A unit's tensors by name and its finished episodes."""

    tensors: dict[str, NDArray[Any]]
    episodes: Episodes


def collect(environment: VectorEnvironment, policy: Policy, steps: int, seed: int, round_: int, unit: int) -> Rollout:
    """Plays `steps` steps in every copy from a fresh start, resetting copies as their episodes end.

    Everything drawn depends on (seed, round, unit) only.
    """
    spec = environment.spec
    uniforms = draws(spec, steps, environment.copies, generator(seed, round_, "actions", unit))
    recorder = Recorder(spec, steps, environment.copies)
    episodes = Episodes(environment.copies, len(spec.agents))
    seen = environment.reset(generator(seed, round_, "environment", unit))
    for t in range(steps):
        choice = policy.sample(seen, tuple(block[t] for block in uniforms))
        step = environment.step(as_environment_actions(choice.actions))
        recorder.record(t, seen, choice, step)
        episodes.add(step)
        seen = step.observation
    return Rollout(recorder.tensors(unit), episodes)


def draws(spec: Spec, steps: int, copies: int, rng: np.random.Generator) -> tuple[FloatArray, ...]:
    """The uniform numbers of a whole unit, per class ``[T, n, E]``, drawn at once."""
    return tuple(rng.random((steps, len(kind.agents), copies), dtype=np.float32) for kind in spec.classes)
