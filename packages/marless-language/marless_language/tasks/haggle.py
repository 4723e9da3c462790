"""`text/haggle`: a buyer and a seller with opposed gains.

The buyer offers a price, the seller asks one, and the buyer says whether that is a deal. In a deal the buyer gets its
value of the thing minus the price, and the seller the price minus the cost, each in tenths. Otherwise both get 0. Each
has only its own information, and the prices.
"""

import msgspec
import numpy as np

from marless.functions.environments.base import EnvTask, options_of
from marless_language.protocol import Lesson, Outcome, TokenArray, Tokenizer, Turn
from marless_language.symbols import Symbols
from marless_language.tasks.prompts import DIGITS, NUMBERS, beside, numbers_of, same_length, single_tokens

_WORTH, _COST = ("It is worth ", " to me. "), ("It cost me ", ". ")
_OFFER, _OFFERED, _ASK, _ASKED = "I offer ", "You offer ", ". I ask ", "You ask "
_DEAL, _ANSWERS = ". A deal? ", ("yes", "no")
SYMBOLS = (*DIGITS, *NUMBERS, *_WORTH, *_COST, _OFFER, _OFFERED, _ASK, _ASKED, _DEAL, *_ANSWERS)

# The least worth, above the largest cost, so that there is always a price that both gain by.
_LEAST_WORTH, _COSTS = 5, 5
_BUYER, _SELLER = 0, 1


class Haggle:
    """The task. See the module."""

    roles = ("buyer", "seller")
    sides = (_BUYER, _SELLER)
    turns = 3

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises `ValueError` for a vocabulary without a token for every digit and both answers."""
        self.tokenizer = tokenizer
        self._digits = single_tokens(tokenizer, DIGITS)
        self._answers = single_tokens(tokenizer, _ANSWERS)
        self._worths = same_length(tokenizer, [number.join(_WORTH) for number in NUMBERS])
        self._costs = same_length(tokenizer, [number.join(_COST) for number in NUMBERS])
        texts = (_OFFER, _OFFERED, _ASK, _ASKED, _DEAL)
        self._offer, self._offered, self._ask, self._asked, self._deal = map(tokenizer.encode, texts)
        buyer = self._worths.shape[1] + max(len(self._offer), len(self._asked) + 1 + len(self._deal))
        seller = self._costs.shape[1] + len(self._offered) + 1 + len(self._ask)
        self.context = 1 + max(buyer, seller)

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """Asks the buyers for their offers."""
        starts = episodes // copies
        self._worth = rng.integers(_LEAST_WORTH, 10, size=starts).repeat(copies)
        self._cost = rng.integers(_COSTS, size=starts).repeat(copies)
        self._prices: list[TokenArray] = []
        return self._price(_BUYER, beside(self._worths[self._worth], self._offer))

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Asks the sellers for their prices, then the buyers for an answer, and then pays both."""
        if len(self._prices) == 2:
            return self._outcome(replies)
        self._prices.append(replies)
        if len(self._prices) == 1:
            return self._price(_SELLER, beside(self._costs[self._cost], self._offered, replies, self._ask))
        prompts = beside(self._worths[self._worth], self._asked, replies, self._deal)
        return Turn(_BUYER, prompts, np.sort(self._answers), length=1)

    def _price(self, role: int, prompts: TokenArray) -> Turn:
        return Turn(role, prompts, np.sort(self._digits), length=1)

    def _outcome(self, answers: TokenArray) -> Outcome:
        offers, price = (numbers_of(prices[:, 0], self._digits) for prices in self._prices)
        deal = (numbers_of(answers[:, 0], self._answers) == 0).astype(np.float64)
        gains = np.stack([deal * (self._worth - price), deal * (price - self._cost)], axis=1) / 10
        return Outcome(gains, {"deals": deal, "asked": price.astype(np.float64), "offered": offers.astype(np.float64)})

    def lessons(self, rng: np.random.Generator, examples: int) -> tuple[Lesson, ...]:
        """Return lessons of a teacher that offers and asks any price from cost to worth, and takes most gainful
        prices."""
        worth, cost = rng.integers(_LEAST_WORTH, 10, size=examples), rng.integers(_COSTS, size=examples)
        offers, asks = rng.integers(0, worth + 1), rng.integers(cost, 10)
        takes = np.where(asks <= worth, 0.75, 0.25) > rng.random(examples)
        prompts = (
            beside(self._worths[worth], self._offer),
            beside(self._costs[cost], self._offered, self._digits[offers][:, None], self._ask),
            beside(self._worths[worth], self._asked, self._digits[asks][:, None], self._deal),
        )
        replies = (self._digits[offers], self._digits[asks], self._answers[np.where(takes, 0, 1)])
        return tuple(
            Lesson(beside(prompt, reply[:, None]), prompt.shape[1])
            for prompt, reply in zip(prompts, replies, strict=True)
        )


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    """It has none."""


def make(task: EnvTask, tokenizer: Tokenizer | None) -> Haggle:
    """Return the task with the vocabulary of a base, or with its default vocabulary. Raises `ValueError`."""
    options_of(task, _Options)
    return Haggle(tokenizer or Symbols(SYMBOLS))
