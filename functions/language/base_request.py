"""What a base is made of: a model in a folder or file, or the lessons of a task."""

from typing import Annotated

import msgspec
from msgspec import Meta

from functions.environments.base import EnvTask
from functions.errors import BadRequest
from functions.language.protocol import LanguageTask, Lesson
from functions.language.symbols import Symbols
from functions.randomness import generator

# Examples of each turn that a small base learns from.
_EXAMPLES = 4096


class Training(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a small base is made."""

    seed: int = 0
    steps: Annotated[int, Meta(ge=1, le=1_000_000)] = 600


class BaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is to be made: the base in `source`, or else a small one for the `task`."""

    target: str
    """The file of the base."""
    source: str = ""
    """A folder or a file."""
    task: EnvTask | None = None
    training: Training = Training()


def lessons_of(task: LanguageTask, name: str, seed: int) -> tuple[Symbols, tuple[Lesson, ...]]:
    """The vocabulary of a small base, and what it learns from; raises `BadRequest` for a task that has none."""
    symbols = task.tokenizer
    lessons = task.lessons(generator(seed, "lessons"), _EXAMPLES)
    if not lessons or not isinstance(symbols, Symbols):
        raise BadRequest(f"{name} has no lessons for a small base; set base.model to a language model")
    return symbols, lessons
