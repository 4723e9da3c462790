"""One PettingZoo environment of several: its dictionaries as rows of arrays, and its alive agents."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from functions.environments.base import ActionArray, AgentClass, BoolArray, Observation, RewardArray
from functions.environments.pettingzoo.agents import Agent
from functions.environments.pettingzoo.guard import Guard
from functions.environments.pettingzoo.spaces import ObservationEncoder


@dataclass(frozen=True)
class Transition:
    """The result of one step of one environment; `rewards`, `terminated` and `alive` ``[N]``."""

    rewards: RewardArray
    terminated: BoolArray
    truncated: bool
    alive: BoolArray

    @property
    def ended(self) -> bool:
        return self.truncated or not self.alive.any()


class Copy:
    """Environment number `row`; it writes into that row of an `Observation`, which must be blank."""

    def __init__(
        self,
        row: int,
        guard: Guard,
        agents: list[Agent],
        classes: tuple[AgentClass, ...],
        horizon: int,
        state: ObservationEncoder | None,
    ) -> None:
        self._row = row
        self._guard = guard
        self._agents = agents
        self._horizon = horizon
        self._state = state
        positions = {i: (c, j) for c, kind in enumerate(classes) for j, i in enumerate(kind.agents)}
        self._positions = [positions[i] for i in range(len(agents))]
        self._alive = np.zeros(len(agents), dtype=np.bool_)

    def reset(self, seed: int, into: Observation) -> None:
        self._guard.steps = 0
        observations, _ = self._guard.mappings("reset", self._guard.call("reset", seed=seed), 2)
        self._alive = np.ones(len(self._agents), dtype=np.bool_)
        present = self._present("reset")
        if missing := [agent.name for agent in self._agents if agent.key not in present]:
            raise self._guard.unsupported("reset", f"an episode starts without agents {missing} of possible_agents")
        self._write_observations("reset", observations, into)

    def step(self, chosen: list[ActionArray], into: Observation) -> Transition:
        """Steps the alive agents; `chosen` are the environment's own actions ``[E, n, ...]`` per class."""
        self._guard.steps += 1
        before = self._alive
        actions = {}
        for i in np.flatnonzero(before).tolist():
            c, j = self._positions[i]
            actions[self._agents[i].key] = chosen[c][self._row, j]
        answer = self._guard.call("step", actions)
        observations, rewards, terminations, truncations, _ = self._guard.mappings("step", answer, 5)
        earned = self._per_agent(rewards, "reward")
        terminated = self._per_agent(terminations, "termination") != 0
        cut = (self._per_agent(truncations, "truncation") != 0) & ~terminated
        self._alive = before & ~terminated
        if cut.any() and not cut[self._alive].all():
            names = [self._agents[i].name for i in np.flatnonzero(cut)]
            raise self._guard.unsupported("step", f"agents {names} are truncated while others go on")
        if not cut.any():
            self._check_present()
        late = self._guard.steps >= self._horizon and self._alive.any()
        self._write_observations("step", observations, into)
        return Transition(earned, terminated, bool(cut.any() or late), self._alive)

    def _present(self, method: str) -> set[Any]:
        """The environment's current agents, which must be in possible_agents."""
        present = {*getattr(self._guard.environment, "agents", ())}
        if unknown := sorted(str(key) for key in present - {agent.key for agent in self._agents}):
            raise self._guard.unsupported(method, f"agents {unknown} are not in possible_agents")
        return present

    def _check_present(self) -> None:
        present = self._present("step")
        missing = [self._agents[i].name for i in np.flatnonzero(self._alive) if self._agents[i].key not in present]
        if missing:
            raise self._guard.fault("step", f"agents {missing} are gone, but neither terminated nor truncated")

    def _per_agent(self, mapping: dict[Any, Any], what: str) -> RewardArray:
        """One number per alive agent, 0 for dead ones."""
        numbers = np.zeros(len(self._agents))
        for i in np.flatnonzero(self._alive).tolist():
            agent = self._agents[i]
            value = self._guard.entry("step", mapping, agent.key, what)
            numbers[i] = self._guard.number("step", value, f"the {what} of agent '{agent.name}'")
        return numbers

    def _write_observations(self, method: str, observations: dict[Any, Any], into: Observation) -> None:
        into.alive[self._row] = self._alive
        for i in np.flatnonzero(self._alive).tolist():
            agent, (c, j) = self._agents[i], self._positions[i]
            seen = self._guard.entry(method, observations, agent.key, "observation")
            what = f"the observation of agent '{agent.name}'"
            if agent.masked and into.masks is not None:
                if not (isinstance(seen, dict) and {"observation", "action_mask"} <= seen.keys()):
                    raise self._guard.fault(method, f"{what} is not a dictionary with its action_mask")
                into.masks[c][self._row, j] = self._mask(method, seen["action_mask"], agent)
                seen = seen["observation"]
            agent.encoder.write(self._guard, method, seen, what, into.values[c][self._row, j])
        # Without agents the state is not needed, and many environments cannot give it.
        if self._state is not None and into.state is not None and self._alive.any():
            state = self._guard.call("state")
            self._state.write(self._guard, "state", state, "the state", into.state[self._row])

    def _mask(self, method: str, mask: object, agent: Agent) -> BoolArray:
        what = f"the action mask of agent '{agent.name}'"
        legal = agent.decoder.legal(self._guard.numbers(method, mask, (agent.decoder.mask_size,), what) != 0)
        if legal is None:
            raise self._guard.fault(method, f"{what} allows no action")
        return legal
