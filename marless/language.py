"""The protocol of language tasks, helpers for prompts, and a check: the names of `marless_language.public`.

Examples:
    >>> from marless.language import LanguageTask, Outcome, Turn, check
"""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    try:
        return getattr(import_module(".".join(("marless_language", "public"))), name)
    except ModuleNotFoundError as error:
        if error.name != "marless_language":
            raise
        raise ImportError("agents that speak need a package: pip install 'marless[language]'") from None
