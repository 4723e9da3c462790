"""The source of a base: a model in a folder or file, or the lessons of a task."""

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.environments.pettingzoo.guard import describe_error_with_location
from marless.functions.errors import BadRequest, foreign_errors
from marless.functions.randomness import generator
from marless_language.episodes import Episodes
from marless_language.protocol import LanguageTask, Lesson
from marless_language.symbols import Symbols
from marless_language.tasks.lessons import any_legal, lessons_of_play

# Examples of each turn that a small base learns from.
_EXAMPLES = 4096


class Training(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that make a small base."""

    seed: int = 0
    steps: Annotated[int, Meta(ge=1, le=1_000_000)] = 600


class BaseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The base to make: the base in `source`, or else a small base for the `task`."""

    target: str
    """The file of the base."""
    source: str = ""
    """A folder or a file."""
    task: EnvTask | None = None
    training: Training = Training()


def lessons_of(task: LanguageTask, name: str, seed: int) -> tuple[Symbols, tuple[Lesson, ...]]:
    """Return the vocabulary of a small base, and its lessons. If the task returns no lessons, a teacher replies any
    legal tokens.

    Raises `BadRequest` for a task that speaks only by a language model, and `EnvironmentFault` for wrong lessons.
    """
    symbols, rng = task.tokenizer, generator(seed, "lessons")
    if not isinstance(symbols, Symbols):
        raise BadRequest(
            f"{name} has a vocabulary of type {type(symbols).__name__}, and a small model needs"
            " marless.language.Symbols; use Symbols, or set base.model to a language model"
        )
    try:
        lessons = task.lessons(rng, _EXAMPLES)
    except (BadRequest, EnvironmentFault):
        raise
    except foreign_errors() as error:
        raise EnvironmentFault(f"{name}, lessons: {describe_error_with_location(error)}") from error
    if not isinstance(lessons, tuple | list):
        raise EnvironmentFault(f"{name}, lessons: returned {type(lessons).__name__}, not a tuple of Lesson")
    lessons = lessons or lessons_of_play(Episodes(name, task), task.turns, any_legal, rng, _EXAMPLES, _EXAMPLES)
    for number, lesson in enumerate(lessons):
        if problem := _problem(lesson, symbols.size):
            raise EnvironmentFault(f"{name}, lessons: number {number} {problem}")
    return symbols, tuple(lessons)


def _problem(lesson: Lesson, vocabulary: int) -> str:
    """Return the reason why a lesson teaches nothing, or ''."""
    if not isinstance(lesson, Lesson):
        return f"is {type(lesson).__name__}, not a Lesson"
    tokens, prompt = lesson
    if not isinstance(tokens, np.ndarray) or tokens.dtype != np.int32 or tokens.ndim != 2 or not tokens.size:
        return "has tokens that are no array of int32 with 2 dimensions"
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        return f"has tokens outside of the vocabulary of {vocabulary}"
    is_whole = isinstance(prompt, int | np.integer) and not isinstance(prompt, bool)
    return (
        ""
        if is_whole and 0 < prompt < tokens.shape[1]
        else f"has a prompt of {prompt!r:.40} of {tokens.shape[1]} tokens"
    )
