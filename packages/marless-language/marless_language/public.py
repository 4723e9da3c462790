"""The protocol of language tasks, helpers for prompts, and a check.

A configuration names the factory of a task as ``text:package.module:make``. MARLess calls it with the vocabulary of the
language model, or with None for the task's own vocabulary, and with `task.options` as keyword arguments. A parameter
`resources` gets the resources that the task may ask.

Examples:
    >>> from marless.language import LanguageTask, Outcome, Turn, check
"""

from typing import Any

from marless_language.protocol import LanguageTask, Lesson, Outcome, Tokenizer, Turn
from marless_language.registry import make
from marless_language.symbols import Symbols
from marless_language.tasks.prompts import beside, numbers_of, same_length, single_tokens

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
    """Try all promises of a language task with random replies. Raises `AssertionError` that names the broken promise.

    Examples:
        >>> check(lambda: my_task.make(None))
    """
    from marless_language.tasks.conformance import check as run_checks

    run_checks(make_task, **options)


def __dir__() -> list[str]:
    return __all__
