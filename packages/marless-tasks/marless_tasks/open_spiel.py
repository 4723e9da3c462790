"""A game of OpenSpiel with players that take turns, with the interface of PettingZoo's `AECEnv`.

Shimmy's class for this truncates long games of Hanabi: it counts dealt cards, too, up to OpenSpiel's limit of moves.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


class SpielGame:
    """`game`, an object of `pyspiel`. Rewards are the changes of its returns."""

    def __init__(self, game: Any) -> None:
        from gymnasium import spaces

        self.possible_agents = [f"player_{i}" for i in range(game.num_players())]
        # A cycle is a turn of every player.
        self.max_cycles = math.ceil(game.max_game_length() / game.num_players())
        self.truncations = dict.fromkeys(self.possible_agents, False)
        self._game = game
        self._observations = spaces.Box(-np.inf, np.inf, tuple(game.observation_tensor_shape()), np.float32)
        self._actions = spaces.Discrete(game.num_distinct_actions())

    def observation_space(self, agent: str) -> Any:
        """The same for every player: the game's observation as numbers."""
        return self._observations

    def action_space(self, agent: str) -> Any:
        """The same for every player."""
        return self._actions

    def reset(self, seed: int) -> None:
        """Begin a new game. Its chance outcomes follow from `seed`."""
        self._rng = np.random.default_rng(seed)
        self.state = self._game.new_initial_state()
        self.agents = list(self.possible_agents)
        self._returns = np.zeros(len(self.agents))
        self._resolve_chance()

    def step(self, action: int) -> None:
        """One turn, and the chance outcomes after it."""
        self.state.apply_action(int(action))
        self._resolve_chance()

    def observe(self, agent: str) -> NDArray[np.float32]:
        """The observation of `agent`."""
        place = self.possible_agents.index(agent)
        return np.array(self.state.observation_tensor(place), dtype=np.float32).reshape(self._observations.shape)

    def close(self) -> None:
        """Does nothing: the game holds only memory."""

    def _resolve_chance(self) -> None:
        while self.state.is_chance_node():
            outcomes, chances = zip(*self.state.chance_outcomes(), strict=True)
            # As `Generator.choice`, in a fifth of its time.
            outcome = np.searchsorted(np.cumsum(chances), self._rng.random(), side="right")
            self.state.apply_action(outcomes[min(int(outcome), len(outcomes) - 1)])
        returns = np.array(self.state.returns())
        over = self.state.is_terminal()
        self.rewards = dict(zip(self.possible_agents, returns - self._returns, strict=True))
        self.terminations = dict.fromkeys(self.possible_agents, over)
        self._returns, self.infos = returns, {}
        if not over:
            self.agent_selection = self.possible_agents[self.state.current_player()]
            mask = np.zeros(self._actions.n, dtype=np.int8)
            mask[self.state.legal_actions()] = 1
            self.infos = {self.agent_selection: {"action_mask": mask}}
