"""Controls of `text/relay`, which separate the roles' learning from other changes."""

import numpy as np
from numpy.typing import NDArray

from marless_language.protocol import Outcome, TokenArray, Tokenizer, Turn
from marless_language.symbols import Symbols
from marless_language.tasks.prompts import beside, numbers_of
from marless_language.tasks.relay import SYMBOLS, Relay


class SidedRelay(Relay):
    """The roles are on two sides, so that one may be an opponent, which does not learn. Both are paid as before."""

    sides = (0, 1)


class ShuffledRelay(Relay):
    """Every start gets the rewards of another start's replies, so no reply influences its advantage. The expected
    gradient of the rewards is 0. `success` counts right answers."""

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """Draws one circle through all starts. Each is paid for the next one."""
        turn = super().reset(rng, episodes, copies)
        circle = rng.permutation(episodes // copies)
        paid_for = np.empty_like(circle)
        paid_for[circle] = np.roll(circle, -1)
        self._paid_for = (paid_for[:, None] * copies + np.arange(copies)).ravel()
        return turn

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Reply like in the relay, except for the rewards."""
        answer = super().reply(replies)
        return answer._replace(rewards=answer.rewards[self._paid_for]) if isinstance(answer, Outcome) else answer


class PartedRelay(Relay):
    """Trains on 34 pairs of numbers, and is evaluated on all 55, where every episode begins by itself.

    Settings are chosen on the 13 pairs for validation. The 8 pairs for the test have no influence on a setting. The
    metrics `validation` and `test` are 1 for a pair of that part. `validation_success` and `test_success` are 1 if the
    sum was right besides.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self._all = self._pairs
        before = Relay(tokenizer, "seen")._pairs
        is_test = np.arange(len(before)) % 5 == 2
        self._trained = before[~is_test]
        self._parts = {"validation": Relay(tokenizer, "unseen")._pairs, "test": before[is_test]}

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """See the class."""
        self._pairs = self._all if copies == 1 else self._trained
        return super().reset(rng, episodes, copies)

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Reply like in the relay, with the metrics of both parts."""
        answer = super().reply(replies)
        if isinstance(answer, Turn):
            return answer
        metrics = {**answer.metrics}
        for part, pairs in self._parts.items():
            is_part = np.zeros((10, 10))
            is_part[tuple(pairs.T)] = 1.0
            metrics[part] = is_part[self._first_number, self._second_number]
            metrics[f"{part}_success"] = metrics[part] * metrics["success"]
        return answer._replace(metrics=metrics)


class RelayPrompts(Relay):
    """The prompts of all numbers and pairs."""

    def asked(self) -> tuple[Turn, Turn]:
        """Return the questions of all ten speakers and of the adders: message m and second number y in row 10 m + y."""
        message, second = np.repeat(self._digits, 10)[:, None], np.tile(self._second, (10, 1))
        return self._turn(0, self._questions), self._turn(1, beside(self._examples, message, second))

    def digits_of(self, allowed: TokenArray) -> NDArray[np.int64]:
        """The digit that each of the allowed tokens is."""
        return numbers_of(allowed, self._digits)


def sided(tokenizer: Tokenizer | None) -> SidedRelay:
    """See `SidedRelay`. Raises `ValueError`."""
    return SidedRelay(tokenizer or Symbols(SYMBOLS))


def parted(tokenizer: Tokenizer | None) -> PartedRelay:
    """See `PartedRelay`. Raises `ValueError`."""
    return PartedRelay(tokenizer or Symbols(SYMBOLS))


def shuffled(tokenizer: Tokenizer | None) -> ShuffledRelay:
    """See `ShuffledRelay`. Raises `ValueError`."""
    return ShuffledRelay(tokenizer or Symbols(SYMBOLS))
