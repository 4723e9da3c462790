"""What a language task of yours may use: the protocol, helpers for prompts, and the check.

A configuration names its factory as ``text:package.module:make``. It is called with the vocabulary of the base, or with
None, and with `task.options` as keyword arguments; one that has a parameter `resources` is given what it may ask.

Examples:
    >>> from marless.language import LanguageTask, Outcome, Turn, check
"""

from typing import Any

from functions.language.protocol import LanguageTask, Lesson, Outcome, Tokenizer, Turn
from functions.language.registry import make
from functions.language.symbols import Symbols
from functions.language.tasks.prompts import beside, numbers_of, same_length, single_tokens

__all__ = [
    "LanguageTask",
    "Lesson",
    "Outcome",
    "Symbols",
    "Tokenizer",
    "Turn",
    "beside",
    "check",
    "make",
    "numbers_of",
    "same_length",
    "single_tokens",
]


def check(make_task: Any, **options: Any) -> None:
    """Tries all that a language task promises with random replies; raises `AssertionError` that names what is broken.

    Examples:
        >>> check(lambda: my_task.make(None))
    """
    from marless.testing.language import check as run_checks

    run_checks(make_task, **options)


def __dir__() -> list[str]:
    return __all__
