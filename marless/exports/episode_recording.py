"""Whole episodes that a team plays, recorded for other programs."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments import registry
from marless.functions.environments.base import (
    ActionArray,
    EnvironmentFault,
    EnvSpec,
    Observation,
    Step,
    VectorEnvironment,
)
from marless.functions.policies import draws
from marless.functions.randomness import generator
from marless.reports.policy import TeamPolicy

# Episodes played side by side.
_BLOCK = 64

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Episode:
    """One episode of T steps: `steps` by name ``[T, ...]``, and the observations after the last, `final` ``[...]``."""

    steps: Arrays
    final: Arrays

    @property
    def length(self) -> int:
        """T."""
        return len(next(iter(self.steps.values())))


def play_episodes(team: TeamPolicy, episodes: int, greedy: bool, seed: int, stream: str) -> Iterator[Episode]:
    """Plays episodes by the policies, sampled unless `greedy`. All random numbers depend on `seed` and `stream` only.

    Raises the errors of `registry.make`, and `EnvironmentFault` for an episode that is longer than the horizon.
    """
    with closing(registry.make(team.task, min(_BLOCK, episodes))) as environment:
        for block, first in enumerate(range(0, episodes, environment.num_envs)):
            recorder = _Recorder(team, environment.spec)
            address = ("export", stream, block)
            rngs = generator(seed, *address), generator(seed, *address, "opponents")
            _play(environment, team, greedy, recorder, rngs)
            count = min(environment.num_envs, episodes - first)
            yield from (recorder.episode(row, team.task.name) for row in range(count))


def _play(
    environment: VectorEnvironment,
    team: TeamPolicy,
    greedy: bool,
    recorder: "_Recorder",
    rngs: tuple[np.random.Generator, np.random.Generator],
) -> None:
    """One whole episode in every environment. One that has ended continues with others, which are not recorded.

    The first of `rngs` is for start states and then actions, the second for agents that act at random.
    """
    spec, num_envs = environment.spec, environment.num_envs
    rng, luck = rngs
    player, observation = team.player(num_envs), environment.reset(rng)
    noise = None if greedy else draws(spec, spec.horizon, num_envs, rng)
    chance = draws(spec, spec.horizon, num_envs, luck)
    running = np.ones(num_envs, np.bool_)
    for t in range(spec.horizon):
        luck_now = tuple(block[t] for block in chance)
        choice = player.act(observation, None if noise is None else tuple(block[t] for block in noise), luck_now)
        step = environment.step(choice.env_actions)
        recorder.record(observation, choice.env_actions, step, running)
        running &= ~step.ended
        if not running.any():
            return
        player.forget(step.ended)
        observation = step.observation


class _Recorder:
    def __init__(self, team: TeamPolicy, spec: EnvSpec) -> None:
        self._spec, self._codecs = spec, [team.codec(agent) for agent in range(len(spec.agents))]
        self._steps: list[Arrays] = []
        self._ends: dict[int, tuple[int, Arrays]] = {}

    def record(
        self, observation: Observation, actions: tuple[ActionArray, ...], step: Step, running: NDArray[np.bool_]
    ) -> None:
        """Adds a step of environments. If they end and are still `running`, their episode ends."""
        arrays = self._observation_arrays(observation)
        ended_by_limit = step.truncated[:, None] & observation.alive & ~step.terminated
        for agent, name in enumerate(self._spec.agents):
            index = self._spec.class_of[agent]
            action = actions[index][:, self._spec.classes[index].agents.index(agent)]
            arrays[f"{name}/actions"] = self._codecs[agent].action.decode(action)
            arrays[f"{name}/rewards"] = step.rewards[:, agent].astype(np.float32)
            arrays[f"{name}/terminations"] = step.terminated[:, agent]
            arrays[f"{name}/truncations"] = ended_by_limit[:, agent]
            arrays[f"{name}/alive"] = observation.alive[:, agent]
        self._steps.append({key: array.copy() for key, array in arrays.items()})
        if step.final is not None:
            final = self._observation_arrays(step.final)
            for row in np.flatnonzero(step.ended & running).tolist():
                self._ends[row] = len(self._steps), {key: array[row].copy() for key, array in final.items()}

    def episode(self, row: int, task: str) -> Episode:
        """The first episode of an environment. Raises `EnvironmentFault` if it has not ended."""
        if row not in self._ends:
            raise EnvironmentFault(f"{task}: an episode is longer than its horizon, {self._spec.horizon}")
        length, final = self._ends[row]
        names = self._steps[0]
        return Episode({name: np.stack([step[name][row] for step in self._steps[:length]]) for name in names}, final)

    def _observation_arrays(self, observation: Observation) -> Arrays:
        arrays: Arrays = {}
        for index, kind in enumerate(self._spec.classes):
            for place, agent in enumerate(kind.agents):
                name = self._spec.agents[agent]
                arrays[f"{name}/observations"] = observation.values[index][:, place]
                if observation.masks is not None and not kind.continuous:
                    arrays[f"{name}/masks"] = observation.masks[index][:, place]
        return arrays if observation.state is None else {**arrays, "state": observation.state}
