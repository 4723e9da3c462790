"""Connect four in PettingZoo itself: a scripted player that tries every column, and how often a run's policies win."""

import numpy as np
from pettingzoo.classic import connect_four_v3

from marless.reports.policy import load_policy

_LINES = [
    [(row + i * down, column + i * right) for i in range(4)]
    for row in range(6)
    for column in range(7)
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1))
    if row + 3 * down < 6 and 0 <= column + 3 * right < 7
]
# The 69 lines of four cells ``[69, 4]``, numbered row by row.
LINES = np.array([[row * 7 + column for row, column in line] for line in _LINES])


def random_player(seen, rng):
    return int(rng.choice(np.flatnonzero(seen["action_mask"])))


def scripted_columns(seen):
    """Return the columns that win at once, else the columns that keep the other from winning at once, else all legal
    ones."""
    board, legal = seen["observation"], np.flatnonzero(seen["action_mask"])
    for player in (0, 1):
        if winning := [column for column in legal if _wins(board, player, column)]:
            return winning
    return legal.tolist()


def _wins(board, player, column):
    """Return whether the player (0: the one that sees the board) completes four in a row by a piece in this column."""
    stones = board[:, :, player].astype(bool)
    stones[np.flatnonzero(~board[:, column].any(axis=1)).max(), column] = True
    return bool(stones.ravel()[LINES].all(axis=1).any())


def results(run, opponent, games, seed=0):
    """1, 0 or -1 for each game that the run's greedy policies won, drew or lost. They begin every second one."""
    policy, rng, game = load_policy(run), np.random.default_rng(seed), connect_four_v3.env()
    ends = []
    for number in range(games):
        own = f"player_{number % 2}"
        game.reset(seed=number)
        while not any(game.terminations.values()):
            turn = game.agent_selection
            seen = game.observe(turn)
            game.step(policy.act({turn: seen})[turn] if turn == own else opponent(seen, rng))
        ends.append(game.rewards[own])
    return np.array(ends)


def win_rate(ends):
    """The share of games won, a draw counting half, and the half-width of its 95 % interval."""
    points = (ends + 1) / 2
    return points.mean(), 1.96 * points.std(ddof=1) / np.sqrt(len(points))
