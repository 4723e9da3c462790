"""An env task as a PettingZoo `ParallelEnv`, for the programs of others; `adapter` is the other way round.

An agent that is terminated leaves `agents`; the agents left when the time is up are truncated. Observations are boxes
of float32 in the shape of `AgentClass.observation_shape`, or vectors where it does not cover all of them; where actions
may be illegal, a dictionary with "observation" and "action_mask", as in PettingZoo's classic games.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from functions.environments.base import ActionArray, AgentClass, EnvTask, Observation
from functions.environments.registry import make


class ParallelView(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """One environment of an env task. A `reset` with a seed gives the same episodes as any other with that seed; one
    without goes on with the random numbers of the last, which are fresh at first."""

    def __init__(self, task: EnvTask) -> None:
        """Raises what `functions.environments.registry.make` raises."""
        self._environment = make(task, 1)
        self._spec = self._environment.spec
        spec = self._spec
        self.metadata = {"name": task.name, "render_modes": []}
        self.render_mode = None
        self.possible_agents = list(spec.agents)
        self.agents: list[str] = []
        self._kinds = {agent: spec.classes[index] for agent, index in zip(spec.agents, spec.class_of, strict=True)}
        masked = spec.masked
        self.observation_spaces = {agent: _observations(kind, masked) for agent, kind in self._kinds.items()}
        self.action_spaces = {agent: _actions(kind) for agent, kind in self._kinds.items()}
        if spec.state_size:
            self.state_space = spaces.Box(-np.inf, np.inf, (spec.state_size,), np.float32)
        self._rng: np.random.Generator | None = None

    def observation_space(self, agent: str) -> Any:
        """The same object in every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The same object in every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The first observations; `options` mean nothing."""
        if seed is not None or self._rng is None:
            self._rng = np.random.default_rng(seed)
        self._seen = self._environment.reset(self._rng)
        self.agents = list(self.possible_agents)
        return self._shown(), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        """One step of the agents in `agents`. Raises `KeyError` for a missing action."""
        step = self._environment.step(tuple(self._class_actions(kind, actions) for kind in self._spec.classes))
        ended = bool(step.ended[0])
        self._seen = step.final if ended and step.final is not None else step.observation
        shown, asked = self._shown(), self.agents
        numbers = {agent: self.possible_agents.index(agent) for agent in asked}
        rewards = {agent: float(step.rewards[0, number]) for agent, number in numbers.items()}
        terminated = {agent: bool(step.terminated[0, number]) for agent, number in numbers.items()}
        truncated = {agent: bool(step.truncated[0]) and not terminated[agent] for agent in asked}
        self.agents = [] if ended else [agent for agent in asked if not terminated[agent]]
        metrics = {name: float(values[0]) for name, values in step.env_metrics.items()} if ended else {}
        return shown, rewards, terminated, truncated, {agent: dict(metrics) for agent in asked}

    def state(self) -> Any:
        """The task's state; raises `NotImplementedError` where it has none."""
        if self._seen.state is None:
            raise NotImplementedError(f"{self.metadata['name']} has no state")
        return self._seen.state[0]

    def close(self) -> None:
        """Frees the environment."""
        self._environment.close()

    def _class_actions(self, kind: AgentClass, actions: Mapping[str, Any]) -> ActionArray:
        """``[1, n, ...]`` of a class; agents that are gone take the first legal action, or the middle of the bounds."""
        rows = []
        for place, number in enumerate(kind.agents):
            agent = self.possible_agents[number]
            rows.append(_taken(kind, actions[agent]) if agent in self.agents else self._nothing(kind, place))
        return np.stack(rows)[None]

    def _nothing(self, kind: AgentClass, place: int) -> ActionArray:
        if kind.continuous:
            return (0.5 * np.array(kind.low) + 0.5 * np.array(kind.high)).astype(np.float32)
        masks, index = self._seen.masks, self._spec.classes.index(kind)
        legal = np.ones(kind.actions, np.bool_) if masks is None else masks[index][0, place]
        first = [int(part.argmax()) for part in np.split(legal, np.cumsum(kind.branches)[:-1])]
        return np.array(first if kind.branches else first[0], np.int64)

    def _shown(self) -> dict[str, Any]:
        return {agent: self._shown_to(agent, self._seen) for agent in self.agents}

    def _shown_to(self, agent: str, seen: Observation) -> Any:
        kind = self._kinds[agent]
        index, place = self._spec.classes.index(kind), kind.agents.index(self.possible_agents.index(agent))
        values = seen.values[index][0, place].reshape(_shape(kind)).copy()
        if seen.masks is None or kind.continuous:
            return values
        return {"observation": values, "action_mask": seen.masks[index][0, place].astype(np.int8)}


def _taken(kind: AgentClass, action: Any) -> ActionArray:
    """An action of the environment's format as the engine takes it."""
    if kind.continuous:
        return np.asarray(action, np.float32).reshape(-1)
    return np.asarray(action, np.int64) - kind.first_action


def _shape(kind: AgentClass) -> tuple[int, ...]:
    whole = bool(kind.observation_shape) and int(np.prod(kind.observation_shape)) == kind.observation_size
    return kind.observation_shape if whole else (kind.observation_size,)


def _observations(kind: AgentClass, masked: bool) -> Any:
    box = spaces.Box(-np.inf, np.inf, _shape(kind), np.float32)
    if not masked or kind.continuous:
        return box
    return spaces.Dict({"observation": box, "action_mask": spaces.MultiBinary(kind.actions)})


def _actions(kind: AgentClass) -> Any:
    if kind.continuous:
        return spaces.Box(np.array(kind.low, np.float32), np.array(kind.high, np.float32))
    if kind.branches:
        return spaces.MultiDiscrete(list(kind.branches), start=[kind.first_action] * len(kind.branches))
    return spaces.Discrete(kind.actions, start=kind.first_action)
