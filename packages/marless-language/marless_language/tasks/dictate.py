"""`text/dictate`: a reader reads a number, word by word or digit by digit (`task.options.script`), and tells it in two
parts.

A writer writes down the first part, and then the whole number, from its note and from the second part. There are four
texts, two of each role, of `task.options.length` tokens. The last text has twice as many. Both get a half where the
note is exactly the first part, and a half where the last text is exactly the number. A digit may be told by any other
one, if the writer understands it.
"""

from itertools import pairwise
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from marless.functions.environments.base import EnvTask, options_of
from marless_language.protocol import Lesson, Outcome, TokenArray, Tokenizer, Turn
from marless_language.symbols import Symbols
from marless_language.tasks.prompts import DIGITS, NUMBERS, beside, numbers_of, single_tokens

# Prompts begin with examples, which a model that was trained on human texts continues.
_EXAMPLES = ("31415", "92658", "27083", "64907")
_BETWEEN, _IS, _END = ",", ": ", "\n"
_WORDS = tuple(f" {number}" for number in NUMBERS)
SYMBOLS = (*DIGITS, *_WORDS, _BETWEEN, _IS, _END)
# The teacher's probability to be right about a digit, and about 1, for which it writes 7 as often.
_RIGHT, _RIGHT_ONE = 0.9, 0.45


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    length: Annotated[int, Meta(ge=1, le=len(_EXAMPLES[0]))] = 5
    script: Literal["words", "digits"] = "words"


class Dictate:
    """The task. See the module."""

    roles = ("reader", "writer")
    sides: tuple[int, ...] = ()
    turns = 4

    def __init__(self, tokenizer: Tokenizer, length: int = 5, script: Literal["words", "digits"] = "words") -> None:
        """`length`: digits of a part. `script`: how the reader finds them. Raises `ValueError` for a vocabulary without
        a token for every digit and word."""
        self.tokenizer, self._length = tokenizer, length
        symbols = _WORDS if script == "words" else DIGITS
        self._digits, self._read = single_tokens(tokenizer, DIGITS), single_tokens(tokenizer, symbols)
        parts = [digits[:length] for digits in _EXAMPLES]
        read = ["".join(symbols[int(digit)] for digit in part) for part in parts]
        lines = (
            [f"{number}{_IS}{part}{_END}" for number, part in zip(read, parts, strict=True)],
            [f"{part}{_IS}{part}{_END}" for part in parts[:3]],
            [f"{one}{_BETWEEN}{other}{_IS}{one}{other}{_END}" for one, other in pairwise(parts)],
        )
        self._told, self._noted, self._joined = (tokenizer.encode("".join(examples)) for examples in lines)
        self._between, self._is = tokenizer.encode(_BETWEEN), tokenizer.encode(_IS)
        longest = max(len(self._told), len(self._noted), len(self._joined) + len(self._between) + 2 * length)
        self.context = longest + len(self._is) + 2 * length

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """Asks the readers for the first part."""
        size = (episodes // copies, 2, self._length)
        self._parts = rng.integers(10, size=size).repeat(copies, axis=0)
        self._texts: list[TokenArray] = []
        return self._ask(0, self._told, self._read[self._parts[:, 0]])

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Asks the writers for a note, the readers for the other part, the writers for the whole, and pays."""
        self._texts.append(replies)
        if len(self._texts) == 1:
            return self._ask(1, self._noted, replies)
        if len(self._texts) == 2:
            return self._ask(0, self._told, self._read[self._parts[:, 1]])
        if len(self._texts) == 3:
            return self._ask(1, self._joined, self._texts[1], self._between, replies, texts=2)
        noted, success = (
            (numbers_of(text, self._digits) == part).all(axis=1).astype(np.float64)
            for text, part in ((self._texts[1], self._parts[:, 0]), (replies, self._whole(self._parts)))
        )
        return Outcome(np.repeat((noted + success)[:, None] / 2, 2, axis=1), {"noted": noted, "success": success})

    def _whole(self, parts: np.ndarray) -> np.ndarray:
        return parts.reshape(len(parts), 2 * self._length)

    def _ask(self, role: int, *prompt: list[int] | TokenArray, texts: int = 1) -> Turn:
        """The first part of a prompt is the same in all episodes."""
        prompts, length = beside(*prompt, self._is), texts * self._length
        return Turn(role, prompts, np.sort(self._digits), length, common=len(prompt[0]))

    def lessons(self, rng: np.random.Generator, examples: int) -> tuple[Lesson, ...]:
        """A teacher who is often wrong, and takes every other 1 for a 7."""
        parts = rng.integers(10, size=(examples, 2, self._length))
        first, second = self._digits[parts[:, 0]], self._digits[parts[:, 1]]
        turns = (
            (self._ask(0, self._told, self._read[parts[:, 0]]), parts[:, 0]),
            (self._ask(1, self._noted, first), parts[:, 0]),
            (self._ask(0, self._told, self._read[parts[:, 1]]), parts[:, 1]),
            (self._ask(1, self._joined, first, self._between, second, texts=2), self._whole(parts)),
        )
        return tuple(
            Lesson(beside(turn.prompts, self._taught(rng, right)), turn.prompts.shape[1]) for turn, right in turns
        )

    def _taught(self, rng: np.random.Generator, right: np.ndarray) -> TokenArray:
        """Return the teacher's replies ``[n, R]`` if `right` is right."""
        luck, others = rng.random(right.shape), rng.integers(10, size=right.shape)
        answers = np.where(luck < _RIGHT, right, others)
        return self._digits[np.where((right == 1) & (luck >= _RIGHT_ONE), 7, answers)]


def make(task: EnvTask, tokenizer: Tokenizer | None) -> Dictate:
    """Return the task with the vocabulary of a base, or with its default vocabulary. Raises `ValueError`."""
    options = options_of(task, _Options)
    return Dictate(tokenizer or Symbols(SYMBOLS), options.length, options.script)
