"""The vocabulary of a small model that was made for one task: whole phrases and single characters."""

from collections.abc import Sequence

from marless_language.errors import Unwritable

UNKNOWN = "?"
"""Replaces a character that a vocabulary cannot write, in texts of others."""


class Symbols:
    """A tokenizer with one token for each of these texts. It splits a text at the longest symbol that fits."""

    def __init__(self, symbols: Sequence[str]) -> None:
        """Raises `ValueError` for a symbol that is empty or repeated."""
        if "" in symbols or len({*symbols}) != len(symbols):
            raise ValueError("the symbols of a vocabulary are different texts, and none is empty")
        self.symbols = tuple(symbols)
        self.size = len(self.symbols)
        self.tokens: Sequence[int] = range(self.size)
        self.marks = frozenset[int]()
        self._numbers = {symbol: number for number, symbol in enumerate(self.symbols)}
        self._lengths = sorted({len(symbol) for symbol in self.symbols}, reverse=True)

    def encode(self, text: str) -> list[int]:
        """The numbers of the symbols. Raises `Unwritable` where the text has others."""
        return self._encoded(text, None)

    def encode_plain(self, text: str) -> list[int]:
        """See `Vocabulary`. No symbol is a mark."""
        return self._encoded(text, self._numbers.get(UNKNOWN))

    def _encoded(self, text: str, unknown: int | None) -> list[int]:
        """With the number that replaces other characters, if any."""
        tokens, first = list[int](), 0
        while first < len(text):
            length = next((n for n in self._lengths if text[first : first + n] in self._numbers), 0)
            number = self._numbers[text[first : first + length]] if length else unknown
            if number is None:
                raise Unwritable(f"the vocabulary has no symbol for {text[first : first + 20]!r}")
            tokens.append(number)
            first += length or 1
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The symbols one after another."""
        return "".join(self.symbols[token] for token in tokens)
