"""The adder of `text/relay` alone, for packages that train one role: ``text:benchmarks.language.adding_task:make``."""

import numpy as np

from marless.language import LanguageTask, Lesson, Outcome, Symbols, Tokenizer, Turn, numbers_of, single_tokens

PAIRS = [(x, y) for x in range(10) for y in range(10 - x)]
DIGITS = tuple(map(str, range(10)))


def prompt_of(x: int, y: int) -> str:
    """Return the prompt for x + y."""
    return f"1+2=3, 4+4=8, {x}+{y}="


class Adding:
    """It gets 1 where the sum is right."""

    roles: tuple[str, ...] = ("adder",)
    sides: tuple[int, ...] = ()
    turns = 1

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._prompts = np.array([tokenizer.encode(prompt_of(*pair)) for pair in PAIRS], np.int32)
        self._digits = single_tokens(tokenizer, DIGITS)
        self.context = self._prompts.shape[1] + 1

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        pairs = rng.integers(len(PAIRS), size=episodes // copies).repeat(copies)
        self._sums = np.sum(PAIRS, axis=1)[pairs]
        return Turn(0, self._prompts[pairs], np.sort(self._digits), length=1)

    def reply(self, replies: np.ndarray) -> Turn | Outcome:
        success = (numbers_of(replies[:, 0], self._digits) == self._sums).astype(np.float64)
        return Outcome(success[:, None], {"success": success})

    def lessons(self, rng: np.random.Generator, examples: int) -> tuple[Lesson, ...]:
        return ()


def make(tokenizer: Tokenizer | None) -> LanguageTask:
    """Return the task, by default with a separate vocabulary."""
    return Adding(tokenizer or Symbols((*DIGITS, *"+=, ")))
