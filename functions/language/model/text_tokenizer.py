"""The vocabulary of a base, from the text that describes it."""

from collections.abc import Sequence

import msgspec

from functions.encoding import Undecodable, from_json, to_json_text
from functions.errors import MissingExtra
from functions.language.errors import UnusableBase
from functions.language.protocol import Tokenizer
from functions.language.symbols import Symbols


class _Symbols(msgspec.Struct):
    symbols: tuple[str, ...] | None = None


def tokenizer_of(text: str) -> Tokenizer:
    """Of a Hugging Face tokenizer.json or of our ``{"symbols": [...]}``; raises `UnusableBase` for other texts and
    `MissingExtra` where the package of the former is not installed."""
    try:
        symbols = from_json(text.encode(), _Symbols).symbols
        return TextTokenizer(text) if symbols is None else Symbols(symbols)
    except (Undecodable, ValueError) as error:
        raise UnusableBase(f"the base's tokenizer cannot be read: {error}") from error


def text_of(symbols: Symbols) -> str:
    """What `tokenizer_of` makes these symbols of."""
    return to_json_text({"symbols": symbols.symbols})


class TextTokenizer:
    """A tokenizer in the format of the package tokenizers. Nothing is fetched, and no mark is put before a text."""

    def __init__(self, text: str) -> None:
        """Raises `ValueError` for a text that describes none, and `MissingExtra` without the package."""
        try:
            import tokenizers
        except ModuleNotFoundError as error:
            raise MissingExtra("this base's tokenizer needs a package: pip install 'marless[language]'") from error
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the package raises this class itself
            raise ValueError(str(error)) from error
        self.size: int = self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of the text alone."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the ids, marks such as the end of a message with it."""
        return str(self._tokenizer.decode([int(token) for token in tokens], skip_special_tokens=False))
