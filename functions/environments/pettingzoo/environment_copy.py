"""One PettingZoo environment of several: converts its dictionaries to rows of arrays and tracks alive agents.

Steps have a fast path: where no agent terminates and all values have the documented types, few checks show that. Any
other step is read again with all checks, which raise a fault that names the error.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from marless.functions.environments.base import AgentClass, BoolArray, FloatArray, Observation, RewardArray
from marless.functions.environments.pettingzoo.agents import Agent
from marless.functions.environments.pettingzoo.global_state import StateWriter
from marless.functions.environments.pettingzoo.guard import Guard
from marless.functions.environments.pettingzoo.masks import MASK, Place, has_mask
from marless.functions.environments.spaces.actions import ActionCodec
from marless.functions.environments.spaces.observations import ObservationCodec, is_finite
from marless.functions.errors import foreign_errors


@dataclass(frozen=True)
class Transition:
    """A step with terminated agents or a truncated episode."""

    terminated: BoolArray
    """Which agents terminated in it, ``[N]``."""
    truncated: bool
    """Whether a time limit ended the episode for all other agents."""
    episode_over: bool
    """Whether the environment has to be reset."""


class _AgentPlace(NamedTuple):
    key: Any
    """Its name in PettingZoo."""
    kind: int
    """The number of its class."""
    at: tuple[int, int]
    """Its index in the arrays of its class: the environment, and the agent's number in the class."""
    write_fast: Callable[[Any, FloatArray, Any], None]
    agent: Agent


class EnvironmentCopy:
    """Environment number `row`, which writes into that row of an `Observation`. The row must be blank."""

    def __init__(
        self,
        row: int,
        guard: Guard,
        agents: list[Agent],
        classes: tuple[AgentClass, ...],
        horizon: int,
        state: ObservationCodec | None,
    ) -> None:
        self._row = row
        self._guard = guard
        self._agents = agents
        self._horizon = horizon
        self._state = None if state is None else StateWriter(row, guard, classes, state)
        places = {i: (c, (row, j)) for c, kind in enumerate(classes) for j, i in enumerate(kind.agents)}
        agents_with_place = [(agent, *places[i]) for i, agent in enumerate(agents)]
        self._all_agents = [
            _AgentPlace(owner.key, kind, at, owner.codec.observation.write_fast, owner)
            for owner, kind, at in agents_with_place
        ]
        # Classes with observation spaces that allow infinite numbers.
        self._classes_to_check = [
            c for c, kind in enumerate(classes) if not agents[kind.agents[0]].codec.observation.finite
        ]
        # The environment's `agents` when they were last checked, and at the start of the last episode.
        self._expected_agents: Any = None
        self._initial_agents: Any = None
        # The agents that left `agents` since the episode began.
        self._gone_agents: set[Any] = set()
        self._set_alive(np.zeros(len(agents), dtype=np.bool_))

    def reset(self, seed: int, into: Observation) -> None:
        """Begins an episode. Raises `EnvironmentFault` and `Unsupported`."""
        self._guard.steps = 0
        observations, infos = self._guard.mappings("reset", self._guard.call("reset", seed=seed), 2)
        if len(self._live_agents) < len(self._agents):
            self._set_alive(np.ones(len(self._agents), dtype=np.bool_))
        self._gone_agents = set()
        self._check_first_agents()
        self._write_observations("reset", observations, infos, into)

    def step(self, native_actions: list[Any], into: Observation, rewards: RewardArray) -> Transition | None:
        """Steps the alive agents. Returns None if all continue.

        `native_actions` are the environment's own actions ``[E, n, ...]`` per class. Rewards go into its row of
        `rewards` ``[E, N]``, zeros.
        """
        guard = self._guard
        guard.steps += 1
        actions = {key: native_actions[kind][at[0]][at[1]] for key, kind, at, _, _ in self._live_agents}
        try:
            answer = guard.environment.step(actions)
        except foreign_errors() as error:
            raise guard.fault_of("step", error) from error
        guard.restore_process("step")
        if (ends := self._read_fast(answer, rewards)) is None:
            transition = self._read_checked(answer, rewards)
        elif any(ends) or guard.steps >= self._horizon:
            transition = self._end_all(terminated=ends[0])
        else:
            transition = None
        self._write_observations("step", answer[0], answer[4], into)
        return transition

    def _set_alive(self, alive: BoolArray) -> None:
        self.alive = alive
        self._alive_indices = [i for i, lives in enumerate(alive.tolist()) if lives]
        self._live_agents = [self._all_agents[i] for i in self._alive_indices]

    def _read_fast(self, answer: Any, rewards: RewardArray) -> tuple[bool, bool] | None:
        """Return the flags "all alive agents terminated" and "all were truncated". Writes their rewards.

        None if only some of them did, or if the values need more checks.
        """
        try:
            observations, reward_by_agent, terminations, truncations, infos = answer
            first = self._live_agents[0].key
            terminated, truncated = terminations[first], truncations[first]
            numbers = []
            for key, *_ in self._live_agents:
                # Identity takes a tenth of the time of ``==`` where numpy's truth values are compared.
                if terminations[key] is not terminated or truncations[key] is not truncated:
                    return None
                numbers.append(reward_by_agent[key])
            row = rewards[self._row]
            row[... if len(numbers) == len(row) else self._alive_indices] = numbers
            is_valid = (
                isinstance(answer, tuple)
                and isinstance(observations, dict)
                and isinstance(reward_by_agent, dict)
                and isinstance(terminations, dict)
                and isinstance(truncations, dict)
                and isinstance(infos, dict)
                # `agents` is not checked in a step that is truncated, like in `_read_checked`.
                and (
                    (truncated and not terminated)
                    or self._guard.environment.agents == ([] if terminated else self._expected_agents)
                )
                and math.isfinite(math.fsum(row.tolist()))
            )
            return (_as_bool(terminated), _as_bool(truncated)) if is_valid else None
        except Exception:  # of any type: `_read_checked` raises the fault that names the cause
            return None

    def _end_all(self, terminated: bool) -> Transition:
        if not terminated:
            return Transition(np.zeros_like(self.alive), truncated=True, episode_over=True)
        before = self.alive
        self._set_alive(np.zeros_like(before))
        return Transition(before, truncated=False, episode_over=True)

    def _read_checked(self, answer: Any, rewards: RewardArray) -> Transition | None:
        """Read the terminated and truncated agents, with all checks. Writes their rewards."""
        guard, before = self._guard, self.alive
        _, reward_by_agent, terminations, truncations, _ = guard.mappings("step", answer, 5)
        rewards[self._row] = self._per_agent(reward_by_agent, "reward")
        terminated = self._per_agent(terminations, "termination") != 0
        truncated_agents = (self._per_agent(truncations, "truncation") != 0) & ~terminated
        if terminated.any():
            self._set_alive(before & ~terminated)
        if truncated_agents.any() and not truncated_agents[self.alive].all():
            names = [self._agents[i].name for i in np.flatnonzero(truncated_agents)]
            raise guard.refusal("step", f"agents {names} are truncated while others go on")
        if not truncated_agents.any():
            self._check_current_agents()
        truncated = bool(truncated_agents.any() or (guard.steps >= self._horizon and self._alive_indices))
        if not (truncated or terminated.any()):
            return None
        return Transition(terminated, truncated, truncated or not self._alive_indices)

    def _check_first_agents(self) -> None:
        agents = getattr(self._guard.environment, "agents", ())
        if not (isinstance(agents, list) and agents == self._initial_agents):
            current_agents = self._current_agents("reset")
            if missing := [agent.name for agent in self._agents if agent.key not in current_agents]:
                raise self._guard.refusal("reset", f"an episode starts without agents {missing} of possible_agents")
            self._initial_agents = self._expected_agents
        self._expected_agents = self._initial_agents

    def _check_current_agents(self) -> None:
        current_agents = self._current_agents("step")
        missing = [self._agents[i].name for i in self._alive_indices if self._agents[i].key not in current_agents]
        if missing:
            raise self._guard.fault("step", f"agents {missing} are gone, but neither terminated nor truncated")
        if returned_agents := [agent.name for agent in self._agents if agent.key in current_agents & self._gone_agents]:
            raise self._guard.refusal(
                "step",
                f"agents {returned_agents} are back in `agents`, which they left in this episode; who is away for a"
                " while stays in `agents` and sees something (zeros, say)",
            )
        self._gone_agents = {agent.key for agent in self._agents} - current_agents

    def _current_agents(self, method: str) -> set[Any]:
        agents = getattr(self._guard.environment, "agents", ())
        current_agents = {*agents}
        if unknown := sorted(str(key) for key in current_agents - {agent.key for agent in self._agents}):
            raise self._guard.refusal(method, f"agents {unknown} are not in possible_agents")
        self._expected_agents = [*agents]
        return current_agents

    def _per_agent(self, mapping: dict[Any, Any], noun: str) -> RewardArray:
        numbers = np.zeros(len(self._agents))
        for i in self._alive_indices:
            agent = self._agents[i]
            value = self._guard.entry("step", mapping, agent.key, noun)
            numbers[i] = self._guard.number("step", value, f"the {noun} of agent '{agent.name}'")
        return numbers

    def _write_observations(
        self, method: str, observations: dict[Any, Any], infos: dict[Any, Any], into: Observation
    ) -> None:
        if not self._write_fast(observations, infos, into):
            for live_agent in self._live_agents:
                self._write_observation(method, observations, infos, live_agent, into)
        # Once all agents are dead the state is not used, and many environments raise an error for it.
        if self._state is not None and into.state is not None and self._alive_indices:
            self._state.write(into, len(self._alive_indices) == len(self._agents), into.state)

    def _write_fast(self, observations: dict[Any, Any], infos: dict[Any, Any], into: Observation) -> bool:
        """Writes observations. Returns False if few checks cannot show that all are valid: then write them again."""
        values, masks = into.values, into.masks
        try:
            for key, kind, at, write, agent in self._live_agents:
                observation, place = observations[key], agent.mask
                if place is Place.NOWHERE or masks is None:
                    if MASK in infos.get(key, ()) or (type(observation) is dict and MASK in observation):
                        raise ValueError
                else:
                    entries = infos[key] if place is Place.INFO else observation
                    masks[kind][at] = _read_mask_fast(agent.codec.action, entries[MASK])
                    if place is Place.PAIR:
                        observation = observation["observation"]
                write(observation, values[kind], at)
            for kind in self._classes_to_check:
                if not is_finite(values[kind][self._row]):
                    raise ValueError
        except Exception:  # of any type: `_write_observation` raises the fault that names the cause
            return False
        return True

    def _write_observation(
        self,
        method: str,
        observations: dict[Any, Any],
        infos: dict[Any, Any],
        live_agent: _AgentPlace,
        into: Observation,
    ) -> None:
        key, kind, at, _, agent = live_agent
        observation = self._guard.entry(method, observations, key, "observation")
        mask = self._mask(method, agent, observation, infos.get(key))
        if agent.mask is Place.PAIR:
            observation = observation["observation"]
        with self._guard.space_errors(method):
            if mask is not None and into.masks is not None:
                legal = agent.codec.action.read_mask(mask, (), f"the action mask of agent '{agent.name}'")
                into.masks[kind][at] = legal
            label = f"the observation of agent '{agent.name}'"
            agent.codec.observation.write(observation, label, into.values[kind][at])

    def _mask(self, method: str, agent: Agent, observation: Any, info: Any) -> Any:
        """The agent's mask, or None. Its place must be its place in the first reset."""
        if agent.mask is Place.NOWHERE:
            if has_mask(observation) or has_mask(info):
                raise self._guard.refusal(
                    method, f"agent '{agent.name}' has an {MASK} now, but had none in the first reset: {_ALWAYS}"
                )
            return None
        if agent.mask is Place.INFO:
            if not has_mask(info):
                raise self._guard.fault(
                    method, f"the info of agent '{agent.name}' has no {MASK}, as it had in the first reset: {_ALWAYS}"
                )
            return info[MASK]
        if not has_mask(observation) or (agent.mask is Place.PAIR and "observation" not in observation):
            fault = "None" if observation is None else f"not a dictionary with its {MASK}"
            raise self._guard.fault(method, f"the observation of agent '{agent.name}' is {fault}")
        return observation[MASK]


# The advice about masks that come and go.
_ALWAYS = "return one in every reset and step, ones where every action is legal"


def _as_bool(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError
    return bool(value)


def _read_mask_fast(decoder: ActionCodec, mask: Any) -> Any:
    """The mask of an agent's actions. Raises an error if few checks cannot show that the environment's is valid."""
    if mask.shape != (decoder.mask_size,) or mask.dtype.kind not in "biu" or mask.tobytes().strip(b"\0\1"):
        raise ValueError
    if len(decoder.choices) == 1:
        allows = any(mask.tobytes())
    else:
        allows = not decoder.joined and all(any(mask[columns].tobytes()) for columns in decoder.choices)
    if allows:
        return mask
    if (legal := decoder.legal(mask != 0)) is None:
        raise ValueError
    return legal
