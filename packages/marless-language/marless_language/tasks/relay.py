"""`text/relay`: a speaker reads a number in words and writes one token.

An adder reads that token and a second number, and writes the sum. Both get 1 if the sum is right, otherwise 0, so they
have to agree on the meaning of the token. `task.options.pairs` selects the pairs of numbers: `all` 55 with a sum of one
digit, or the parts `seen` and `unseen`. They allow training on some pairs, and a test of the roles on the others.
"""

from typing import Literal

import msgspec
import numpy as np

from marless.functions.environments.base import EnvTask, options_of
from marless_language.protocol import Lesson, Outcome, TokenArray, Tokenizer, Turn
from marless_language.symbols import Symbols
from marless_language.tasks.prompts import DIGITS, NUMBERS, beside, numbers_of, same_length, single_tokens

# A beginning that a model trained on human texts continues. It adds with two examples, but not with none.
_SPEAKER = "The number ", " is written as "
_EXAMPLES, _PLUS, _EQUALS = "1+2=3, 4+4=8, ", "+", "="
SYMBOLS = (*DIGITS, *NUMBERS, *_SPEAKER, ", ", _PLUS, _EQUALS)

_PAIRS = np.array([(x, y) for x in range(10) for y in range(10 - x)])
_IS_SEEN = np.arange(len(_PAIRS)) % 4 != 3
# How often the teacher is right. Where it errs by habit, how often it says one more, and how often it is right.
_RIGHT, _ONE_MORE, _RIGHT_BESIDE = 0.6, 0.55, 0.25


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    pairs: Literal["all", "seen", "unseen"] = "all"


class Relay:
    """The task. See the module."""

    roles = ("speaker", "adder")
    sides: tuple[int, ...] = ()
    turns = 2

    def __init__(self, tokenizer: Tokenizer, pairs: str = "all") -> None:
        """Raises `ValueError` for a vocabulary without a token for every digit."""
        self.tokenizer = tokenizer
        self._pairs = _PAIRS if pairs == "all" else _PAIRS[(pairs == "seen") == _IS_SEEN]
        self._digits = single_tokens(tokenizer, DIGITS)
        before, after = _SPEAKER
        self._questions = same_length(tokenizer, [f"{before}{number}{after}" for number in NUMBERS])
        self._examples = tokenizer.encode(_EXAMPLES)
        self._second = same_length(tokenizer, [f"{_PLUS}{digit}{_EQUALS}" for digit in DIGITS])
        self.context = 1 + max(self._questions.shape[1], len(self._examples) + 1 + self._second.shape[1])

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """Asks the speakers."""
        pairs = self._pairs[rng.integers(len(self._pairs), size=episodes // copies)].repeat(copies, axis=0)
        self._first_number, self._second_number = pairs.T
        self._message: TokenArray | None = None
        return self._turn(0, self._questions[self._first_number])

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Asks the adders, and then pays both."""
        if self._message is None:
            self._message = replies
            return self._turn(1, beside(self._examples, replies, self._second[self._second_number]))
        is_right = numbers_of(replies[:, 0], self._digits) == self._first_number + self._second_number
        is_literal = numbers_of(self._message[:, 0], self._digits) == self._first_number
        success = is_right.astype(np.float64)
        metrics = {"success": success, "literal_messages": is_literal.astype(np.float64)}
        return Outcome(np.repeat(success[:, None], 2, axis=1), metrics)

    def _turn(self, role: int, prompts: TokenArray) -> Turn:
        return Turn(role, prompts, np.sort(self._digits), length=1)

    def lessons(self, rng: np.random.Generator, examples: int) -> tuple[Lesson, ...]:
        """A teacher who is often wrong, and wrong by habit about a third of all numbers, so that there is something to
        learn by trying."""
        numbers = rng.integers(10, size=examples)
        spoken = self._taught(rng, numbers, numbers % 3 == 1)
        first, second = _PAIRS[rng.integers(len(_PAIRS), size=examples)].T
        added = self._taught(rng, first + second, (first + 2 * second) % 3 == 0)
        sums = beside(self._examples, self._digits[first][:, None], self._second[second])
        return (
            Lesson(beside(self._questions[numbers], spoken), self._questions.shape[1]),
            Lesson(beside(sums, added), sums.shape[1]),
        )

    def _taught(self, rng: np.random.Generator, right: np.ndarray, errs: np.ndarray) -> TokenArray:
        """Return the teacher's answers ``[n, 1]`` if `right` is right, with errors by habit where `errs`."""
        luck, answers = rng.random(len(right)), rng.integers(10, size=len(right))
        answers = np.where(luck < np.where(errs, _ONE_MORE + _RIGHT_BESIDE, _RIGHT), right, answers)
        answers = np.where(errs & (luck < _ONE_MORE), (right + 1) % 10, answers)
        return self._digits[answers][:, None]


def make(task: EnvTask, tokenizer: Tokenizer | None) -> Relay:
    """Return the task with the vocabulary of a base, or with its default vocabulary. Raises `ValueError`."""
    return Relay(tokenizer or Symbols(SYMBOLS), options_of(task, _Options).pairs)
