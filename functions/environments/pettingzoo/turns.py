"""Games in turns, PettingZoo's `AECEnv`, behind the interface of its `ParallelEnv`.

Every turn is a step. The acting agent chooses among its legal actions. The others wait: their observation comes from
`observe`, their mask allows only the first action, and their actions have no effect. A choice among one action has the
probability 1 and no gradient, so every algorithm learns from turns only. Values and rewards continue over all steps, so
a player that loses by the opponent's move is paid in that step (docs/decisions/0018-turns.md).
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import Unsupported
from marless.functions.environments.pettingzoo.guard import Guard
from marless.functions.environments.pettingzoo.horizon import own_horizon
from marless.functions.environments.pettingzoo.masks import MASK, NO_RESET, Place, has_mask, unmasked_space
from marless.functions.environments.pettingzoo.spaces import action_space_of
from marless.functions.environments.pettingzoo.wrappers import innermost
from marless.functions.environments.spaces.actions import ActionCodec

StepResult = tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any]]


class TurnEnvironment:
    """`game` with actions of every agent in every step. Only the action of the agent in turn counts.

    Masks are the entry "action_mask" of observations or of ``infos[agent]``, see `masks`. Without either, every action
    is legal. Rewards are the game's `rewards` after each turn.
    """

    def __init__(self, task: str, game: Any) -> None:
        """Raises `Unsupported` for actions that cannot be masked, `task` being the env task's name."""
        self.possible_agents = list(game.possible_agents)
        self.agents: list[Any] = []
        # A cycle is a turn of every agent.
        cycles = own_horizon(game)
        self.max_cycles = cycles if cycles is None else cycles * len(self.possible_agents)
        self.metadata = getattr(game, "metadata", None)
        self.game = game
        self._inner = innermost(game)
        guard, self._spaces, self._places, self._action_spaces, self._waiting_masks = Guard(task, game), {}, {}, {}, {}
        for agent in self.possible_agents:
            space = guard.space("observation_space", agent)
            self._spaces[agent], self._places[agent] = unmasked_space(
                f"{task}: agent '{agent}'", space, agent, NO_RESET
            )
            self._action_spaces[agent] = guard.space("action_space", agent)
            self._waiting_masks[agent] = _first_action_mask(task, agent, self._action_spaces[agent])

    def observation_space(self, agent: Any) -> Any:
        """The space of the observations of `agent`, with a mask of its actions."""
        from gymnasium import spaces

        mask = spaces.Box(0, 1, self._waiting_masks[agent].shape, np.int8)
        return spaces.Dict({"observation": self._spaces[agent], MASK: mask})

    def action_space(self, agent: Any) -> Any:
        """The space of the actions of `agent`."""
        return self._action_spaces[agent]

    def reset(self, seed: int) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """A new episode."""
        self.game.reset(seed=seed)
        self.agents = list(self._inner.agents)
        return {agent: self._observation(agent) for agent in self.agents}, {}

    def step(self, actions: dict[Any, Any]) -> StepResult:
        """One turn. It uses only the action of the agent in turn.

        Raises `RuntimeError` when it is the turn of an agent that is not in play.
        """
        game = self._inner
        self.game.step(actions[game.agent_selection])
        # Copies, because the game removes agents that left.
        rewards, terminations, truncations = dict(game.rewards), dict(game.terminations), dict(game.truncations)
        self.agents = [agent for agent in game.agents if not (terminations.get(agent) or truncations.get(agent))]
        if self.agents:
            self._remove_dead_agents()
            self._check_turn()
        observers = [agent for agent in actions if not terminations.get(agent)]
        return {agent: self._observation(agent) for agent in observers}, rewards, terminations, truncations, {}

    def state(self) -> Any:
        """The game's global state. Raises `NotImplementedError` if it has none."""
        # Some games have another attribute `state`, which the wrappers of PettingZoo would call.
        if not callable(getattr(getattr(self.game, "unwrapped", self.game), "state", None)):
            raise NotImplementedError
        return self.game.state()

    def render(self) -> Any:
        """The game's picture."""
        return self.game.render()

    def close(self) -> None:
        """Closes the game."""
        self.game.close()

    def _remove_dead_agents(self) -> None:
        """Gives dead agents their last step, `step(None)`, as PettingZoo's convention has it."""
        game = self._inner
        while game.terminations.get(game.agent_selection) or game.truncations.get(game.agent_selection):
            agent_count = len(game.agents)
            self.game.step(None)
            if len(game.agents) == agent_count:
                raise RuntimeError(f"agent '{game.agent_selection}' does not leave by step(None) after its end")

    def _check_turn(self) -> None:
        if (turn := self._inner.agent_selection) not in self.agents:
            raise RuntimeError(f"it is the turn of agent '{turn}', which is not in play")

    def _observation(self, agent: Any) -> dict[str, Any]:
        is_waiting = agent != self._inner.agent_selection
        # Wrappers store the observation of the agent in turn.
        observation = (self._inner if is_waiting else self.game).observe(agent)
        if observation is None:
            raise RuntimeError(
                f"observe('{agent}') returned None; agents observe something in every turn, also while others act"
            )
        mask = self._waiting_masks[agent] if is_waiting else self._legal(agent, observation)
        if isinstance(observation, dict) and "observation" in observation and self._is_inner(agent):
            observation = observation["observation"]
        return {"observation": observation, MASK: mask}

    def _is_inner(self, agent: Any) -> bool:
        from gymnasium import spaces

        return self._places[agent] is Place.PAIR or not isinstance(self._spaces[agent], spaces.Dict)

    def _legal(self, agent: Any, observation: Any) -> Any:
        mask = observation[MASK] if has_mask(observation) else (self._inner.infos.get(agent) or {}).get(MASK)
        if mask is None and self._places[agent] is not Place.NOWHERE:
            raise RuntimeError(f"observe('{agent}') returned no {MASK}, which the agent's observation space has")
        if mask is None:
            return np.ones_like(self._waiting_masks[agent])
        # Where a time limit ended the game, it may allow nothing to the agent that would have been next.
        return mask if agent in self.agents or np.any(mask) else self._waiting_masks[agent]


def _first_action_mask(task: str, agent: Any, space: Any) -> NDArray[np.int8]:
    codec = ActionCodec(msgspec.to_builtins(action_space_of(f"{task}: agent '{agent}'", space, joint=False)))
    if codec.continuous:
        raise Unsupported(f"{task}: agent '{agent}' takes turns with continuous actions, which cannot be masked")
    return codec.first.astype(np.int8)
