"""An env task as a PettingZoo `ParallelEnv`, for other trainers. `adapter` converts in the other direction.

An agent that terminates leaves `agents`. A time limit truncates the agents that are left. Observations, actions and
names of agents are the environment's (`native_spaces`). Tasks that describe no spaces have boxes of float32 in the
shape of `AgentClass.observation_shape`, or vectors if it covers only a part. If actions may be illegal, observations
are dictionaries with "observation" and "action_mask", like PettingZoo's classic games. Numbers have the precision of
networks, float32. The last action (`task.last_action`) is the policy's state, and is not shown.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from marless.functions.environments import native_spaces
from marless.functions.environments.base import ActionArray, AgentClass, EnvTask, Observation, VectorEnvironment
from marless.functions.environments.pettingzoo.spaces import gymnasium_space
from marless.functions.environments.spaces.agent import AgentCodec
from marless.functions.environments.spaces.space_types import AgentSpaces


class ParallelView(ParallelEnv[Any, Any, Any]):  # type: ignore[misc]
    """One environment of an env task. Equal seeds of `reset` give equal episodes. A `reset` without a seed continues
    the stream of random numbers, which begins with a seed of the operating system."""

    def __init__(self, environment: VectorEnvironment, task: EnvTask) -> None:
        """`environment` is one environment of the task."""
        self._environment = environment
        self._spec = self._environment.spec
        spec = self._spec
        self.metadata = {"name": task.name, "render_modes": []}
        self.render_mode = None
        self.max_cycles = spec.horizon  # as PettingZoo's own say how long an episode may be
        self.possible_agents: list[Any] = list(spec.keys or spec.agents)
        self.agents: list[Any] = []
        self._classes = dict(zip(self.possible_agents, (spec.classes[index] for index in spec.class_of), strict=True))
        spaces_by_agent = {
            name: native_spaces.spaces_of(kind, task.last_action, spec.masked) for name, kind in self._classes.items()
        }
        self._masked = {name for name, agent_spaces in spaces_by_agent.items() if agent_spaces.masked}
        self._codecs = {
            name: AgentCodec(str(name), agent_spaces.plain()) for name, agent_spaces in spaces_by_agent.items()
        }
        self.observation_spaces = {
            name: self._observation_space(name, agent_spaces) for name, agent_spaces in spaces_by_agent.items()
        }
        self.action_spaces = {
            name: gymnasium_space(agent_spaces.action) for name, agent_spaces in spaces_by_agent.items()
        }
        if spec.state_size:
            self.state_space = spaces.Box(-np.inf, np.inf, (spec.state_size,), np.float32)
        self._rng: np.random.Generator | None = None

    def observation_space(self, agent: Any) -> Any:
        """The same object in every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: Any) -> Any:
        """The same object in every call."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """The first observations. `options` are ignored."""
        if seed is not None or self._rng is None:
            self._rng = np.random.default_rng(seed)
        self._observation = self._environment.reset(self._rng)
        self.agents = list(self.possible_agents)
        return self._observations(), {agent: {} for agent in self.agents}

    def step(
        self, actions: Mapping[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """One step of the agents in `agents`.

        Raises `KeyError` for a missing action, and `ValueError` for one that is no action of its agent.
        """
        step = self._environment.step(tuple(self._class_actions(kind, actions) for kind in self._spec.classes))
        done = bool(step.ended[0])
        self._observation = step.final if done and step.final is not None else step.observation
        observations, agents = self._observations(), self.agents
        numbers = {agent: self.possible_agents.index(agent) for agent in agents}
        rewards = {agent: float(step.rewards[0, number]) for agent, number in numbers.items()}
        terminated = {agent: bool(step.terminated[0, number]) for agent, number in numbers.items()}
        truncated = {agent: bool(step.truncated[0]) and not terminated[agent] for agent in agents}
        self.agents = [] if done else [agent for agent in agents if not terminated[agent]]
        metrics = {name: float(values[0]) for name, values in step.env_metrics.items()} if done else {}
        return observations, rewards, terminated, truncated, {agent: dict(metrics) for agent in agents}

    def state(self) -> Any:
        """The task's state. Raises `NotImplementedError` without one."""
        if self._observation.state is None:
            raise NotImplementedError(f"{self.metadata['name']} has no state")
        return self._observation.state[0]

    def close(self) -> None:
        """Frees the environment."""
        self._environment.close()

    def _class_actions(self, kind: AgentClass, actions: Mapping[Any, Any]) -> ActionArray:
        """The actions of a class ``[1, n, ...]``. Dead agents take the first legal one, or the middle of the bounds."""
        rows = []
        for place, number in enumerate(kind.agents):
            if (agent := self.possible_agents[number]) in self.agents:
                rows.append(self._codecs[agent].action.encode(actions[agent], (), f"the action of agent '{agent}'"))
            else:
                rows.append(self._default_action(kind, place))
        return np.stack(rows)[None]

    def _default_action(self, kind: AgentClass, place: int) -> ActionArray:
        if kind.continuous:
            return (0.5 * np.array(kind.low) + 0.5 * np.array(kind.high)).astype(np.float32)
        masks, index = self._observation.masks, self._spec.classes.index(kind)
        legal = np.ones(kind.actions, np.bool_) if masks is None else masks[index][0, place]
        first = [int(part.argmax()) for part in np.split(legal, np.cumsum(kind.branches)[:-1])]
        return np.array(first if kind.branches else first[0], np.int64)

    def _observations(self) -> dict[Any, Any]:
        return {agent: self._observation_of(agent, self._observation) for agent in self.agents}

    def _observation_of(self, agent: Any, observation: Observation) -> Any:
        kind, codec, number = self._classes[agent], self._codecs[agent], self.possible_agents.index(agent)
        index, place = self._spec.classes.index(kind), kind.agents.index(number)
        # If observations hold the policy's last action, it comes after the environment's numbers.
        values = codec.observation.read(observation.values[index][0, place, : codec.observation.size])
        if observation.masks is None or agent not in self._masked:
            return values
        # A dead agent has no turn.
        dead = self._spec.turns and not observation.alive[0, number]
        mask = codec.action.first if dead else codec.action.mask_of(observation.masks[index][0, place])
        return {"observation": values, "action_mask": mask.astype(np.int8)}

    def _observation_space(self, agent: Any, agent_spaces: AgentSpaces) -> Any:
        space = gymnasium_space(agent_spaces.observation)
        if agent not in self._masked:
            return space
        mask = spaces.MultiBinary(self._codecs[agent].action.mask_size)
        return spaces.Dict({"observation": space, "action_mask": mask})
