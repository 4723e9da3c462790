"""Games in which agents take turns, PettingZoo's `AECEnv`, behind the interface of its `ParallelEnv`.

Every turn is a step. The agent whose turn it is chooses among its legal actions; the others wait: they see what
`observe` gives them, their mask allows nothing but the first action, and what they do has no effect. A choice among one
action has the probability 1 and no gradient, so every algorithm learns from turns only, while values and rewards go on
over all steps: a player that loses by the opponent's move is paid in that step (docs/decisions/0018-turns.md).
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from functions.environments.base import Unsupported
from functions.environments.pettingzoo.horizon import own_horizon
from functions.environments.pettingzoo.spaces import action_space_of
from functions.environments.pettingzoo.wrappers import innermost
from functions.environments.spaces.actions import ActionCodec

Answer = tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any]]


class TurnEnvironment:
    """`game`, in which every agent acts in every step, and only the action of the one whose turn it is counts.

    Masks are those of observations of the form ``{"observation", "action_mask"}``, or ``infos[agent]["action_mask"]``;
    without either every action is legal. Rewards are the game's `rewards` after each turn.
    """

    def __init__(self, task: str, game: Any) -> None:
        """Raises `Unsupported` for actions that cannot be masked, `task` being the env task's name."""
        self.possible_agents = list(game.possible_agents)
        self.agents: list[Any] = []
        # A cycle is a turn of every agent.
        cycles = own_horizon(game)
        self.max_cycles = cycles if cycles is None else cycles * len(self.possible_agents)
        self.metadata = getattr(game, "metadata", None)
        self._game = game
        self._inner = innermost(game)
        self._masks = {agent: _holds_mask(game.observation_space(agent)) for agent in self.possible_agents}
        self._waiting = {agent: _first_actions(task, agent, game.action_space(agent)) for agent in self.possible_agents}

    def observation_space(self, agent: Any) -> Any:
        """What `agent` sees, with a mask of its actions."""
        from gymnasium import spaces

        observation = self._game.observation_space(agent)
        if self._masks[agent]:
            return observation
        mask = spaces.Box(0, 1, self._waiting[agent].shape, np.int8)
        return spaces.Dict({"observation": observation, "action_mask": mask})

    def action_space(self, agent: Any) -> Any:
        """What `agent` chooses from."""
        return self._game.action_space(agent)

    def reset(self, seed: int) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """A new episode."""
        self._game.reset(seed=seed)
        self.agents = list(self._inner.agents)
        return {agent: self._observation(agent) for agent in self.agents}, {}

    def step(self, actions: dict[Any, Any]) -> Answer:
        """One turn; of `actions` the one of the agent whose turn it is counts.

        Raises `RuntimeError` when it is the turn of an agent that is not in play.
        """
        game = self._inner
        self._game.step(actions[game.agent_selection])
        # Copies, because the game forgets agents that left.
        rewards, terminations, cut = dict(game.rewards), dict(game.terminations), dict(game.truncations)
        self.agents = [agent for agent in game.agents if not (terminations.get(agent) or cut.get(agent))]
        if self.agents:
            self._let_the_dead_leave()
            self._check_turn()
        seeing = [agent for agent in actions if not terminations.get(agent)]
        return {agent: self._observation(agent) for agent in seeing}, rewards, terminations, cut, {}

    def state(self) -> Any:
        """The game's own state; raises `NotImplementedError` when it has none."""
        # Some games have another attribute `state`, which the wrappers of PettingZoo would call.
        if not callable(getattr(getattr(self._game, "unwrapped", self._game), "state", None)):
            raise NotImplementedError
        return self._game.state()

    def render(self) -> Any:
        """The game's own picture."""
        return self._game.render()

    def close(self) -> None:
        """Closes the game."""
        self._game.close()

    def _let_the_dead_leave(self) -> None:
        """Dead agents take a last turn without an action: at once, or when the game comes to them."""
        game = self._inner
        while game.terminations.get(game.agent_selection) or game.truncations.get(game.agent_selection):
            present = len(game.agents)
            self._game.step(None)
            if len(game.agents) == present:
                raise RuntimeError(f"agent '{game.agent_selection}' does not leave by step(None) after its end")

    def _check_turn(self) -> None:
        turn = self._inner.agent_selection
        if turn not in self.agents:
            raise RuntimeError(f"it is the turn of agent '{turn}', which is not in play")

    def _observation(self, agent: Any) -> dict[str, Any]:
        """The observation of `agent`, with what it may do now."""
        waits = agent != self._inner.agent_selection
        # Wrappers keep what the agent sees whose turn it is.
        observation = (self._inner if waits else self._game).observe(agent)
        mask = None
        if isinstance(observation, dict) and self._masks[agent]:
            mask = observation["action_mask"]
            observation = observation["observation"]
        elif not waits:
            mask = self._inner.infos.get(agent, {}).get("action_mask")
        return {"observation": observation, "action_mask": self._waiting[agent] if waits else self._legal(agent, mask)}

    def _legal(self, agent: Any, mask: Any) -> Any:
        """The mask of the agent whose turn it is, given the game's, or None for every action."""
        if mask is None:
            return np.ones_like(self._waiting[agent])
        # Where a time limit ended the game, it may allow nothing to the agent that would have been next.
        return mask if agent in self.agents or np.any(mask) else self._waiting[agent]


def _holds_mask(space: Any) -> bool:
    from gymnasium import spaces

    return isinstance(space, spaces.Dict) and {*space.spaces} == {"observation", "action_mask"}


def _first_actions(task: str, agent: Any, space: Any) -> NDArray[np.int8]:
    """The mask that allows the first action only, of every choice."""
    space_description = action_space_of(f"{task}: agent '{agent}'", space, joint=False)
    codec = ActionCodec(msgspec.to_builtins(space_description))
    if codec.continuous:
        raise Unsupported(f"{task}: agent '{agent}' takes turns with continuous actions, which cannot be masked")
    return codec.first.astype(np.int8)
