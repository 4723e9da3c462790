"""What games of other packages are written with: the vocabulary of those without a language model, and options."""

from collections.abc import Sequence

from msgspec.structs import replace

from functions.environments.base import EnvTask
from functions.language.protocol import Tokenizer
from functions.language.symbols import Symbols

NUMERALS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
FILL, END = " ", "\n"
CHARACTERS = Symbols([END, *map(chr, range(ord(" "), ord("~") + 1))])
"""The printable characters, a token each."""


def readable(text: str, vocabulary: Tokenizer) -> Sequence[int]:
    """The tokens of a text; the characters have a question mark for all others."""
    if vocabulary is CHARACTERS:
        text = "".join(letter if letter in CHARACTERS.symbols else "?" for letter in text)
    return vocabulary.encode(text)


def count_of(task: EnvTask, option: str, what: str) -> int:
    """An option that is a whole number above 0; raises `ValueError`."""
    value = task.options.get(option)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{task.name}: set task.options.{option}, {what}, to a whole number of at least 1")
    return value


def without_options(task: EnvTask, *names: str) -> EnvTask:
    """The task without options that are not its factory's."""
    return replace(task, options={name: value for name, value in task.options.items() if name not in names})
