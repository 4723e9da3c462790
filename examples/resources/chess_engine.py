"""Chess of PettingZoo with an engine that speaks UCI: it judges every position, and may play black.

A move pays the change that it makes in the engine's opinion, as a share of games that white would win. Where the engine
plays black, its move is a part of white's. The engine begins a new game with every question and searches a fixed number
of positions, so its answers repeat.
"""

import re

import chess
from pettingzoo import AECEnv
from pettingzoo.classic.chess import chess_utils
from pettingzoo.classic.chess.chess import raw_env
from pettingzoo.utils import BaseWrapper

_SCORE = re.compile(r"score (cp|mate) (-?\d+) (?!upperbound|lowerbound)")
_MATED = 10_000


class Judged(BaseWrapper):
    def __init__(self, resources, nodes: int, opponent: bool):
        super().__init__(raw_env())
        self.resources, self.nodes, self.opponent = resources, nodes, opponent
        if opponent:
            self.possible_agents = ["player_0"]

    @property
    def agents(self):
        return [agent for agent in self.env.agents if agent in self.possible_agents]

    @agents.setter
    def agents(self, agents):
        pass

    def reset(self, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self._ask()

    def step(self, action):
        """Pay a move by its change of the engine's opinion. If the engine plays black, its answer is part of the
        move."""
        if any(self.env.terminations.values()):
            super().step(action)
            return
        before = self.white
        self.env.step(action)
        self._ask()
        if self.opponent and not any(self.env.terminations.values()):
            self.env.step(self._action_of(self.answer))
            self._ask()
        self.env.rewards = {"player_0": self.white - before, "player_1": before - self.white}

    def _ask(self):
        """Ask for the engine's opinion of the position and for its move. A finished game needs no opinion."""
        board = self.env.unwrapped.board
        if any(self.env.terminations.values()):
            self.white = (1 + self.env.rewards["player_0"]) / 2
            return
        question = f"ucinewgame\nposition fen {board.fen()}\ngo nodes {self.nodes}"
        (answer,) = self.resources.call("engine", [question.encode()])
        *_, (kind, number) = _SCORE.findall(answer.decode())
        self.answer = answer.decode().rpartition("bestmove ")[2].split()[0]
        score = int(number) if kind == "cp" else (_MATED if int(number) > 0 else -_MATED)
        white = score if board.turn == chess.WHITE else -score
        self.white = 1 / (1 + 10 ** (-white / 400))  # as ratings are meant: 400 points are ten games to one

    def _action_of(self, move: str) -> int:
        board = self.env.unwrapped.board
        legal = chess_utils.legal_moves(board)
        return next(one for one in legal if chess_utils.action_to_move(board, one, 1).uci() == move)


def make(resources, nodes: int = 200, opponent: bool = False) -> AECEnv:
    return Judged(resources, nodes, opponent)
