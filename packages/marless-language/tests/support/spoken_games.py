"""Games for agents that speak: a PettingZoo game with a separate text, and a game of text."""

import random

from challenges import Challenge


class WordedChallenge(Challenge):
    def text_of(self, agent):
        (place, turns), (players, number) = self.observe(agent)["observation"].astype(int)
        return f"Player {place}, turn {turns}, {players} of us, {number}:"


class WrongWords(WordedChallenge):
    def __init__(self, limit, text):
        super().__init__(limit=limit)
        self.text = {"none": None, "bytes": b"read", "raised": ValueError("no\ntext")}[text]

    def text_of(self, agent):
        if isinstance(self.text, ValueError):
            raise self.text
        return self.text


class Stones:
    """Two players take 1 to 3 stones in turn, and the player of the last stone gets 1. Another reply gets -1.

    After every turn a stone comes back half of the time, by Python's own generator.
    """

    def reset(self, num_players, seed=None):
        self.players, self.player, self.stones = num_players, 0, random.randint(4, 8)
        self.rewards = None

    def get_observation(self):
        return self.player, [(-1, "Take 1, 2 or 3 stones.", "PROMPT"), (-1, f"There are {self.stones}:", "BOARD")]

    def step(self, action):
        taken = int(action) if action in ("1", "2", "3") else 0
        self.stones = max(0, self.stones - taken)
        if not taken or not self.stones:
            self.rewards = {self.player: 1 if taken else -1, 1 - self.player: 0}
            return True, {}
        self.stones += random.random() < 0.5
        self.player = (self.player + 1) % self.players
        return False, {}

    def close(self):
        return self.rewards, {}
