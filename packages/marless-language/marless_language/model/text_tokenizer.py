"""The vocabulary of a base, from the text that describes it."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from marless.functions.encoding import Undecodable, from_json, to_json_text
from marless.functions.errors import MissingExtra, foreign_errors
from marless_language.errors import UnusableBase, Unwritable
from marless_language.model.tokenizer_document import require_known, require_sound
from marless_language.protocol import Vocabulary
from marless_language.symbols import UNKNOWN, Symbols


class _Symbols(msgspec.Struct):
    symbols: tuple[str, ...] | None = None


def tokenizer_of(text: str, name: str = "the base's tokenizer") -> Vocabulary:
    """Of a Hugging Face tokenizer.json or of our ``{"symbols": [...]}``.

    Raises `UnusableBase`, with the `name` of the text, for any other one, and `MissingExtra` without the package.
    """
    try:
        symbols = from_json(text.encode(), _Symbols).symbols
        return TextTokenizer(text) if symbols is None else Symbols(symbols)
    except (Undecodable, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnusableBase(f"{name} cannot be read: {error}") from error


def text_of(symbols: Symbols) -> str:
    """Return the text that `tokenizer_of` turns into these symbols."""
    return to_json_text({"symbols": symbols.symbols})


class TextTokenizer:
    """A tokenizer in the format of the package tokenizers, which fetches nothing.

    Only the text itself becomes tokens: truncation, padding, dropout and marks around a text are off.
    """

    def __init__(self, text: str) -> None:
        """Raises `ValueError` for a text that describes none, and for settings unknown to the package. Raises
        `MissingExtra` without the package."""
        document = from_json(text, dict[str, Any])
        require_sound(document)
        self._text, self._tokenizer = text, _loaded(text)
        require_known(document, from_json(self._tokenizer.to_str(), dict[str, Any]))
        self._is_pairs = type(self._tokenizer.model).__name__ == "BPE"
        self._writable = set[str]()
        self.tokens: Sequence[int] = sorted(self._tokenizer.get_vocab().values())
        self.size: int = self.tokens[-1] + 1
        added = self._tokenizer.get_added_tokens_decoder()
        self.marks = frozenset(number for number, token in added.items() if token.special)
        self._added = [token.content for token in added.values()]
        self._added_texts = [token.content for token in added.values() if not token.special]

    def encode(self, text: str) -> list[int]:
        """The ids of the text alone. Raises `Unwritable` where a part of it would vanish."""
        return self._encoded(self._tokenizer, text, self._added)

    def encode_plain(self, text: str) -> list[int]:
        """See `Vocabulary`."""
        try:
            return self._encoded(self._without_marks, text, self._added_texts)
        except Unwritable:
            written = {letter: letter if self._writes(letter) else UNKNOWN for letter in {*text}}
            return self._encoded(self._without_marks, "".join(written[letter] for letter in text), self._added_texts)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of the ids, marks such as the end of a message with it."""
        numbers = [int(token) for token in tokens]
        try:
            return str(self._tokenizer.decode(numbers, skip_special_tokens=False))
        except foreign_errors() as error:
            raise Unwritable(f"the vocabulary cannot read tokens {numbers[:5]}: {error}") from error

    def _writes(self, letter: str) -> bool:
        try:
            return bool(self._encoded(self._without_marks, letter, self._added_texts)) or letter.isspace()
        except Unwritable:
            return False

    @cached_property
    def _without_marks(self) -> Any:
        tokenizer = _loaded(self._text)
        tokenizer.encode_special_tokens = True
        return tokenizer

    def _encoded(self, tokenizer: Any, text: str, added: Sequence[str]) -> list[int]:
        try:
            encoding = tokenizer.encode(text, add_special_tokens=False)
            tokens = list(encoding.ids)
            fresh = sorted({*text} - self._writable)
            vanishing = next((letter for letter in fresh if self._vanishes(letter, text, added)), None)
            vanishing = vanishing or next(_vanishing_parts(tokenizer, encoding, text), None)
        except (
            foreign_errors()
        ) as error:  # the package raises this class itself, where it has no token for what is unknown
            raise Unwritable(f"the vocabulary cannot write {text[:20]!r}: {error}") from error
        if vanishing is not None:
            raise Unwritable(f"the vocabulary has no token for {vanishing!r}")
        return tokens

    def _vanishes(self, letter: str, text: str, added: Sequence[str]) -> bool:
        """Return whether a character leaves no trace in the tokens of a text. White space may vanish."""
        if not letter.isspace():
            once, twice = self._pieces(letter), self._pieces(2 * letter)
            if once == twice or (self._is_pairs and not all(map(self._tokenizer.model.tokenize, once))):
                for token in sorted((token for token in added if letter in token), key=len, reverse=True):
                    text = text.replace(token, "")
                return letter in text
        self._writable.add(letter)
        return False

    def _pieces(self, text: str) -> str:
        """The text as it is split into tokens."""
        normalizer, pre_tokenizer = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
        text = normalizer.normalize_str(text) if normalizer else text
        return "".join(piece for piece, _ in pre_tokenizer.pre_tokenize_str(text)) if pre_tokenizer else text


def _vanishing_parts(tokenizer: Any, encoding: Any, text: str) -> Iterator[str]:
    """The parts of a text that leave no trace in its tokens. White space may vanish."""
    is_covered = bytearray(len(text))
    for start, end in encoding.offsets:
        is_covered[start:end] = b"\1" * (end - start)
    for part in re.finditer(b"\0+", is_covered):
        start, end = part.span()
        without = text[:start] + text[end:]
        if text[start:end].strip() and tokenizer.encode(without, add_special_tokens=False).ids == encoding.ids:
            yield text[start:end]


def _loaded(text: str) -> Any:
    """The package's tokenizer, with nothing around or in place of the text's own tokens."""
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise MissingExtra("this base's tokenizer needs a package: pip install 'marless[language]'") from error
    try:
        tokenizer: Any = tokenizers.Tokenizer.from_str(text)
    except foreign_errors() as error:
        raise ValueError(str(error)) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.post_processor = None
    if getattr(tokenizer.model, "dropout", None) is not None:
        tokenizer.model.dropout = None
    return tokenizer
