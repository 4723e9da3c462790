"""Lessons from a teacher who plays a task."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from marless_language.experience import Sampled
from marless_language.protocol import Lesson, Outcome, TokenArray, Turn

Teacher = Callable[[Turn, np.random.Generator], TokenArray]
"""Returns the replies ``[E, length]`` to a turn."""


class Play(Protocol):
    """Episodes of a language task."""

    def reset(self, rng: np.random.Generator, episodes: int) -> Turn:
        """Return the first turn."""

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Return the next turn, or the outcome."""


def lessons_of_play(
    play: Play, turns: int, teacher: Teacher, rng: np.random.Generator, examples: int, episodes: int
) -> tuple[Lesson, ...]:
    """Return a lesson for each turn: `examples` drawn from `episodes` with the teacher's replies.

    The last reply is not given, because a task may ask a resource for its reward.
    """
    lessons = list[Lesson]()
    turn: Turn | Outcome = play.reset(rng, episodes)
    while isinstance(turn, Turn):
        replies = teacher(turn, rng)
        rows = np.flatnonzero(turn.is_asked)
        rows = rng.choice(rows if len(rows) else episodes, size=examples)
        lessons.append(Lesson(np.concatenate([turn.prompts, replies], axis=1)[rows], turn.prompts.shape[1]))
        if len(lessons) == turns:
            break
        turn = play.reply(replies)
    return tuple(lessons)


def any_legal(turn: Turn, rng: np.random.Generator) -> TokenArray:
    """Return replies ``[E, length]`` with equal probabilities of all legal tokens."""
    return Sampled.at_random(turn, rng).replies
