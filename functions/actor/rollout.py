"""Collection of trajectories, without storage or messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from marless.functions.data.trajectory import Recorder
from marless.functions.environments.base import Observation, Step, VectorEnvironment
from marless.functions.episode_returns import Episodes
from marless.functions.messages.actor import Behaviour
from marless.functions.policies import SAMPLE, Player, Policy, draws
from marless.functions.randomness import generator


@runtime_checkable
class InBlocks(VectorEnvironment, Protocol):
    """An environment that can be reset in independent blocks, beyond the protocol."""

    def reset_blocks(self, rngs: Sequence[np.random.Generator]) -> Observation:
        """Resets every environment, in as many equal contiguous blocks as there are generators.

        From then on a block's rows have the bytes of an environment of the block's size after `reset` with the block's
        generator.
        """


@dataclass(frozen=True)
class Rollout:
    """A rollout's tensors by name and its finished episodes."""

    tensors: dict[str, NDArray[Any]]
    episodes: Episodes
    # ``[E, N]``: the returns so far of unfinished episodes.
    running: NDArray[np.float64]


def collect(
    environment: VectorEnvironment,
    policy: Policy,
    steps: int,
    seed: int,
    round_: int,
    rollout: int,
    behaviour: Behaviour = SAMPLE,
    observation: Observation | None = None,
    running: NDArray[np.float64] | None = None,
) -> Rollout:
    """Collects `steps` steps in every environment after a reset, with resets at the ends of episodes.

    With `observation` it continues from that observation instead. Its episodes have returned `running` ``[E, N]`` so
    far, or 0. All random numbers depend on (seed, round, rollout) only. Raises `BadRequest` if `behaviour` is
    unsupported.
    """
    if observation is None:
        observation = environment.reset(generator(seed, round_, "environment", rollout))
    player = Player(policy, environment.num_envs, 1, behaviour)
    return _play(environment, player, steps, seed, round_, (rollout,), observation, running)[0]


def collect_side_by_side(
    environment: InBlocks,
    policy: Policy,
    steps: int,
    seed: int,
    round_: int,
    rollouts: Sequence[int],
    behaviour: Behaviour = SAMPLE,
) -> list[Rollout]:
    """Collects several rollouts in one loop, each with an equal block of the environments.

    Every rollout has the bytes that `collect` gives it.
    """
    observation = environment.reset_blocks([generator(seed, round_, "environment", rollout) for rollout in rollouts])
    player = Player(policy, environment.num_envs, len(rollouts), behaviour)
    return _play(environment, player, steps, seed, round_, rollouts, observation)


def _play(
    environment: VectorEnvironment,
    player: Player,
    steps: int,
    seed: int,
    round_: int,
    rollouts: Sequence[int],
    observation: Observation,
    running: NDArray[np.float64] | None = None,
) -> list[Rollout]:
    spec, num_envs = environment.spec, environment.num_envs // len(rollouts)
    parts = [draws(spec, steps, num_envs, generator(seed, round_, "actions", rollout)) for rollout in rollouts]
    noise = [np.concatenate(blocks, axis=2) for blocks in zip(*parts, strict=True)]
    recorder = Recorder(spec, steps, num_envs, len(rollouts))
    returns = _Returns(len(rollouts), num_envs, len(spec.agents))
    if running is not None:
        returns.running[:] = running
    for t in range(steps):
        choice = player.act(observation, tuple(block[t] for block in noise))
        step = environment.step(choice.env_actions)
        recorder.record(t, observation, choice.actions, choice.log_probability, step)
        returns.add(step)
        player.forget(step.ended)
        observation = step.observation
    running_returns = returns.running.reshape(len(rollouts), num_envs, -1)
    return [
        Rollout(recorder.tensors(rollout, index), returns.rollouts[index], running_returns[index])
        for index, rollout in enumerate(rollouts)
    ]


class _Returns:
    def __init__(self, rollouts: int, num_envs: int, agents: int) -> None:
        self.rollouts = [Episodes(num_envs, agents) for _ in range(rollouts)]
        self._num_envs = num_envs
        self.running = np.zeros((rollouts * num_envs, agents))

    def add(self, step: Step) -> None:
        """Adds a step's rewards. Sums reach a rollout's episodes when an episode of it ends."""
        self.running += step.rewards
        if step.final is None:
            return
        for index in np.flatnonzero(step.ended.reshape(-1, self._num_envs).any(axis=1)):
            rows = slice(index * self._num_envs, (index + 1) * self._num_envs)
            self.rollouts[index].add(_closing(step, self.running, rows))
        self.running[step.ended] = 0.0


def _closing(step: Step, sums: NDArray[np.float64], rows: slice) -> Step:
    """The environments `rows` of a step, with episodes' sums as last rewards and 0 where the episode continues."""
    return Step(
        observation=step.observation,
        rewards=np.where(step.ended[rows, None], sums[rows], 0.0),
        terminated=step.terminated[rows],
        truncated=step.truncated[rows],
        ended=step.ended[rows],
        final=step.final,
        env_metrics={name: values[rows] for name, values in step.env_metrics.items()},
    )
