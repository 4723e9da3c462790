"""Language tasks of a package: an echo, and some that break the protocol."""

import numpy as np

from marless.language import LanguageTask, Outcome, Symbols, Turn, single_tokens

LETTERS = ("a", "b", "c")


class Echo:
    """A role reads a letter and is paid for the same one."""

    roles, sides, turns = ("echo",), (), 1

    def __init__(self, tokenizer, pay=1.0, context=2):
        self.tokenizer, self._pay, self.context = tokenizer, pay, context
        self._letters = single_tokens(tokenizer, LETTERS)

    def reset(self, rng, episodes, copies=1):
        self._asked = self._letters[rng.integers(3, size=episodes // copies).repeat(copies)]
        return Turn(0, self._asked[:, None], np.sort(self._letters), 1)

    def reply(self, replies):
        return Outcome((self._pay * (replies[:, 0] == self._asked))[:, None])

    def lessons(self, rng, examples):
        return ()


def make(tokenizer, pay: float = 1.0, context: int = 2) -> LanguageTask:
    return Echo(tokenizer or Symbols(LETTERS), pay, context)


def unpaid(tokenizer) -> LanguageTask:
    return make(tokenizer, float("nan"))
