"""The texts of other packages' games: the default vocabulary without a language model, and options."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from marless.functions.environments.base import EnvTask
from marless_language.protocol import Vocabulary
from marless_language.symbols import Symbols

NUMERALS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
FILL, END = " ", "\n"
CHARACTERS = Symbols([END, *map(chr, range(ord(" "), ord("~") + 1))])
"""The printable characters, a token each."""


_ENDS: WeakKeyDictionary[Vocabulary, tuple[int, ...]] = WeakKeyDictionary()


def ends_of(vocabulary: Vocabulary) -> tuple[int, ...]:
    """The tokens that end a line, ascending: marks, and tokens that hold a new line."""
    if vocabulary not in _ENDS:
        _ENDS[vocabulary] = tuple(
            token for token in vocabulary.tokens if token in vocabulary.marks or END in vocabulary.decode([token])
        )
    return _ENDS[vocabulary]


def line_of(tokens: Sequence[int], vocabulary: Vocabulary) -> str:
    """The text of the tokens up to the first mark or new line."""
    first = next((place for place, token in enumerate(tokens) if token in vocabulary.marks), len(tokens))
    return vocabulary.decode(tokens[:first]).partition(END)[0]


def count_of(task: EnvTask, option: str, what: str) -> int:
    """An option that is a whole number above 0. Raises `ValueError`."""
    value = task.options.get(option)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{task.name}: set task.options.{option}, {what}, to a whole number of at least 1")
    return value


def without_options(task: EnvTask, *names: str) -> EnvTask:
    """Return the task with only its factory's options."""
    return replace(task, options={name: value for name, value in task.options.items() if name not in names})
