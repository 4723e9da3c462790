"""Two agents that speak, with a reward of one's own, in 25 lines of a notebook."""

import linecache

import pytest

CELL = """import numpy as np
import marless
from marless.language import Outcome, Symbols, Turn, single_tokens
class Signals:
    roles, sides, turns, context = ("speaker", "listener"), (), 2, 2
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer or Symbols(["cat", "dog", "ba", "di"])
        self.animals = single_tokens(self.tokenizer, ["cat", "dog"])
        self.sounds = single_tokens(self.tokenizer, ["ba", "di"])
    def reset(self, rng, episodes, copies=1):
        self.animal = self.animals[rng.integers(2, size=episodes // copies).repeat(copies)]
        self.is_over = False
        return Turn(0, self.animal[:, None], np.sort(self.sounds), 1)
    def reply(self, replies):
        if not self.is_over:
            self.is_over = True
            return Turn(1, replies, np.sort(self.animals), 1)
        is_right = (replies[:, 0] == self.animal).astype(float)
        return Outcome(np.stack([is_right, is_right], axis=1))
    def lessons(self, rng, examples):
        return ()
run = marless.train(Signals, "grpo", rounds=2, quiet=True)
"""


@pytest.mark.slow
def test_a_task_of_a_cell_is_learned(tmp_path, shell, no_processes):
    assert len(CELL.splitlines()) <= 25
    shell.cd(tmp_path)
    linecache.cache["<ipython-input-1-cell>"] = (len(CELL), None, CELL.splitlines(keepends=True), "")
    names = {"__name__": "__main__"}
    exec(compile(CELL, "<ipython-input-1-cell>", "exec"), names)
    # Of two animals, chance names the right one half of the time. Both roles get 1 for it.
    assert names["run"].summary.rounds == 2 and 0.5 < names["run"].summary.final_return.mean <= 2.0
