"""Environments and policies to trajectories: the actor's work without storage or messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from functions.contract import Behaviour
from functions.data.trajectory import Recorder
from functions.environments.base import Observation, Step, VectorEnvironment
from functions.episodes import Episodes
from functions.policies import SAMPLE, Player, Policy, draws
from functions.randomness import generator


@runtime_checkable
class InBlocks(VectorEnvironment, Protocol):
    """What an environment may offer beyond the protocol: copies in blocks that do not know of each other."""

    def reset_blocks(self, rngs: Sequence[np.random.Generator]) -> Observation:
        """Starts every copy anew, in as many equal blocks of neighbours as there are generators.

        From here on a block's rows have, byte for byte, what an environment of the block's size alone would give after
        `reset` with the block's generator.
        """


@dataclass(frozen=True)
class Rollout:
    """A unit's tensors by name and its finished episodes."""

    tensors: dict[str, NDArray[Any]]
    episodes: Episodes


def collect(
    environment: VectorEnvironment,
    policy: Policy,
    steps: int,
    seed: int,
    round_: int,
    rollout: int,
    behaviour: Behaviour = SAMPLE,
) -> Rollout:
    """Plays `steps` steps in every copy from a fresh start, resetting copies as their episodes end.

    Everything drawn depends on (seed, round, unit) only. Raises `BadRequest` when agents cannot behave so.
    """
    seen = environment.reset(generator(seed, round_, "environment", rollout))
    return _play(
        environment, Player(policy, environment.num_envs, 1, behaviour), steps, seed, round_, (rollout,), seen
    )[0]


def collect_side_by_side(
    environment: InBlocks,
    policy: Policy,
    steps: int,
    seed: int,
    round_: int,
    rollouts: Sequence[int],
    behaviour: Behaviour = SAMPLE,
) -> list[Rollout]:
    """Several units in one loop, each with as many of the environment's copies as the others.

    Every unit has the bytes that `collect` alone gives it.
    """
    seen = environment.reset_blocks([generator(seed, round_, "environment", rollout) for rollout in rollouts])
    player = Player(policy, environment.num_envs, len(rollouts), behaviour)
    return _play(environment, player, steps, seed, round_, rollouts, seen)


def _play(
    environment: VectorEnvironment,
    player: Player,
    steps: int,
    seed: int,
    round_: int,
    rollouts: Sequence[int],
    seen: Observation,
) -> list[Rollout]:
    spec, num_envs = environment.spec, environment.num_envs // len(rollouts)
    parts = [draws(spec, steps, num_envs, generator(seed, round_, "actions", rollout)) for rollout in rollouts]
    noise = [np.concatenate(blocks, axis=2) for blocks in zip(*parts, strict=True)]
    recorder = Recorder(spec, steps, num_envs, len(rollouts))
    returns = _Returns(len(rollouts), num_envs, len(spec.agents))
    for t in range(steps):
        choice = player.act(seen, tuple(block[t] for block in noise))
        step = environment.step(choice.played)
        recorder.record(t, seen, choice, step)
        returns.add(step)
        player.forget(step.ended)
        seen = step.observation
    return [
        Rollout(recorder.tensors(rollout, place), returns.rollouts[place]) for place, rollout in enumerate(rollouts)
    ]


class _Returns:
    """The episodes of units that are stepped together, unit by unit."""

    def __init__(self, rollouts: int, num_envs: int, agents: int) -> None:
        self.rollouts = [Episodes(num_envs, agents) for _ in range(rollouts)]
        self._num_envs = num_envs
        self._running = np.zeros((rollouts * num_envs, agents))

    def add(self, step: Step) -> None:
        """Adds a step's rewards; a unit hears of them, summed, when an episode of its own ends."""
        self._running += step.rewards
        if step.final is None:
            return
        for place in np.flatnonzero(step.ended.reshape(-1, self._num_envs).any(axis=1)):
            own = slice(place * self._num_envs, (place + 1) * self._num_envs)
            self.rollouts[place].add(_closing(step, self._running, own))
        self._running[step.ended] = 0.0


def _closing(step: Step, sums: NDArray[np.float64], own: slice) -> Step:
    """The copies `own` of a step, episodes' sums in place of their last rewards, nothing for those that go on."""
    return Step(
        observation=step.observation,
        rewards=np.where(step.ended[own, None], sums[own], 0.0),
        terminated=step.terminated[own],
        truncated=step.truncated[own],
        ended=step.ended[own],
        final=step.final,
        env_metrics={name: values[own] for name, values in step.env_metrics.items()},
    )
