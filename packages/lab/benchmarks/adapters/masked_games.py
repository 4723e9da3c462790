"""Our test game for the registry, because the packages of `make bench` never mask actions in a `ParallelEnv`."""

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete


class Ladder:
    """Climbers on ladders of eight rungs: up, down or wait. Nobody steps off an end, and who is at the top leaves."""

    rungs = 8

    def __init__(self, climbers: int = 4, max_cycles: int = 50) -> None:
        self.possible_agents = [f"climber_{i}" for i in range(climbers)]
        self.agents: list[str] = []
        self.max_cycles = max_cycles

    def observation_space(self, agent: str) -> Any:
        """Return the space of all heights, and the legal actions."""
        seen = Box(0, 1, (len(self.possible_agents) + 1,), np.float32)
        return Dict({"observation": seen, "action_mask": Box(0, 1, (3,), np.int8)})

    def action_space(self, agent: str) -> Any:
        """Wait, up, down."""
        return Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Everybody on one of the lower rungs."""
        rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._steps = 0
        self._heights = dict(zip(self.agents, rng.integers(4, size=len(self.agents)).tolist(), strict=True))
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Everybody at once."""
        self._steps += 1
        for agent, action in actions.items():
            self._heights[agent] += (0, 1, -1)[action]
        top = {agent: self._heights[agent] == self.rungs for agent in self.agents}
        rewards = {agent: float(top[agent]) - 0.01 for agent in self.agents}
        late = self._steps >= self.max_cycles
        cut = {agent: late and not top[agent] for agent in self.agents}
        seen = self._seen()
        infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.agents = [agent for agent in self.agents if not (top[agent] or cut[agent])]
        return seen, rewards, top, cut, infos

    def state(self) -> Any:
        """Return all heights."""
        return np.array([*self._heights.values()], np.float32) / self.rungs

    def close(self) -> None:
        """Holds nothing."""

    def _seen(self) -> dict[str, Any]:
        everybody = self.state()
        return {agent: self._of(agent, everybody) for agent in self.agents}

    def _of(self, agent: str, everybody: Any) -> dict[str, Any]:
        height = self._heights[agent]
        seen = np.append(everybody, np.float32(height / self.rungs))
        mask = np.array([1, height < self.rungs, height > 0], np.int8)
        return {"observation": seen, "action_mask": mask}
