"""The conformance suite of language tasks: checks the protocol of `marless_language.protocol` with random
replies.

Authors run ``check(lambda: make(None))`` in their tests, inside of `marless.resources.local` if the task asks
resources.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import EnvironmentFault
from marless_language.episodes import Episodes, fault_of
from marless_language.experience import Sampled
from marless_language.protocol import LanguageTask, Lesson, Outcome, TokenArray, Turn

Make = Callable[[], LanguageTask]
Array = NDArray[np.generic]

_EPISODES, _COPIES, _SEED = 6, 3, 20

_NOT_REPRODUCIBLE = "the same generator and replies gave other bytes in a new task"
_NOT_FORGOTTEN = (
    "the same generator and replies gave other bytes after earlier episodes (reset leaves something behind)"
)
_SAME_STARTS = "another generator gave the same first prompts"
_OTHER_SHAPES = (
    "a turn has another role, length, end, prompt length, common beginning or allowed tokens in other episodes"
)
_UNREAD = "replies of a role that was not asked changed what came of an episode"
_OTHER_COPIES = "copies of an episode begin with different prompts"
_UNEQUAL_COPIES = "copies of an episode with equal replies gave different rewards"
_COUPLED = "the replies in one episode changed what others gave"
_NO_TEXT = "the vocabulary does not decode a prompt to a text"
_LESSONS = "there are {count} lessons for {turns} turns"
_LESSON = "lesson {number}: {what}"


def check(make: Make, random_starts: bool = True) -> None:
    """Plays some episodes of tasks that `make` makes. Raises `AssertionError` that names the broken rule.

    `random_starts`: whether first prompts depend on the generator.
    """
    task = make()
    _require(not fault_of(task), fault_of(task))
    turns, outcome = _play(task, _SEED)
    first_bytes = _bytes(turns, outcome)
    _play(task, _SEED + 1)
    _require(_bytes(*_play(task, _SEED)) == first_bytes, _NOT_FORGOTTEN)
    _require(_bytes(*_play(make(), _SEED)) == first_bytes, _NOT_REPRODUCIBLE)
    others, _ = _play(make(), _SEED + 1, episodes=2 * _EPISODES)
    _require(not random_starts or others[0].prompts.tobytes() != turns[0].prompts.tobytes(), _SAME_STARTS)
    _require(_shapes(others) == _shapes(turns), _OTHER_SHAPES)
    _require(_bytes(*_play(make(), _SEED, unread=-1)) == first_bytes, _UNREAD)
    for turn in turns:
        _require(isinstance(task.tokenizer.decode(turn.prompts[0].tolist()), str), _NO_TEXT)
    _check_copies(make())
    _check_independence(make, turns, outcome)
    _check_lessons(task, turns)


def _play(
    task: LanguageTask,
    seed: int,
    episodes: int = _EPISODES,
    copies: int = 1,
    last: int | None = None,
    unread: int = 0,
) -> tuple[list[Turn], Outcome]:
    """Random replies. Equal ones in copies. `last` seeds the last episode's replies, which differ by default. `unread`
    is the position of the allowed token in episodes that ask no role."""
    play = Episodes(type(task).__name__, task)
    rng, of_last = np.random.default_rng(seed + 1000), np.random.default_rng(seed if last is None else last)
    try:
        turn: Turn | Outcome = play.reset(np.random.default_rng(seed), episodes, copies)
        turns = list[Turn]()
        while isinstance(turn, Turn):
            turns.append(turn)
            replies = _random(turn.of_episodes(slice(None, None, copies)), rng).repeat(copies, axis=0)
            if last is not None:
                replies[-1] = _random(turn.of_episodes(slice(-1, None)), of_last)[0]
            replies[~turn.is_asked] = turn.allowed[unread]
            turn = play.reply(replies)
    except EnvironmentFault as error:
        raise AssertionError(str(error)) from error
    return turns, turn


def _random(turn: Turn, rng: np.random.Generator) -> TokenArray:
    return Sampled.at_random(turn, rng).replies


def _bytes(turns: Iterable[Turn], outcome: Outcome) -> list[bytes]:
    arrays: list[Array] = [part for turn in turns for part in (turn.prompts, turn.allowed, _legal(turn))]
    arrays += [outcome.rewards, *(outcome.metrics[name] for name in sorted(outcome.metrics))]
    return [array.tobytes() for array in arrays]


def _legal(turn: Turn) -> Array:
    return turn.is_asked if turn.legal is None else turn.legal


def _shapes(turns: Iterable[Turn]) -> list[tuple[object, ...]]:
    return [
        (
            *(turn.role, turn.prompts.shape[1], turn.length, turn.end, turn.ends, turn.legal is None),
            turn.allowed.tobytes(),
            turn.prompts[0, : turn.common].tobytes(),
        )
        for turn in turns
    ]


def _check_copies(task: LanguageTask) -> None:
    turns, outcome = _play(task, _SEED, copies=_COPIES)
    for array, fault in ((turns[0].prompts, _OTHER_COPIES), (outcome.rewards, _UNEQUAL_COPIES)):
        groups = array.reshape(-1, _COPIES, array.shape[1])
        _require(bool((groups == groups[:, :1]).all()), fault)


def _check_independence(make: Make, turns: list[Turn], outcome: Outcome) -> None:
    """Checks that other replies in the last episode change nothing of the others."""
    other_turns, other_outcome = _play(make(), _SEED, last=_SEED + 2)
    pairs: list[tuple[Array, Array]] = [
        (part(one), part(other))
        for part in (lambda turn: turn.prompts, _legal)
        for one, other in zip(turns, other_turns, strict=True)
    ]
    pairs.append((outcome.rewards, other_outcome.rewards))
    _require(all(one[:-1].tobytes() == other[:-1].tobytes() for one, other in pairs), _COUPLED)


def _check_lessons(task: LanguageTask, turns: list[Turn]) -> None:
    lessons = task.lessons(np.random.default_rng(_SEED), _EPISODES)
    if not lessons:
        return
    _require(len(lessons) == len(turns), _LESSONS.format(count=len(lessons), turns=len(turns)))
    for number, (lesson, turn) in enumerate(zip(lessons, turns, strict=True)):
        fault = _lesson_fault(lesson, turn)
        _require(not fault, _LESSON.format(number=number, what=fault))


def _lesson_fault(lesson: Lesson, turn: Turn) -> str:
    expected = (_EPISODES, turn.prompts.shape[1] + turn.length)
    if lesson.tokens.shape != expected or lesson.tokens.dtype != np.int32:
        return f"its tokens are {lesson.tokens.dtype} {lesson.tokens.shape}, not int32 {expected}"
    if lesson.prompt != turn.prompts.shape[1]:
        return f"its prompt has {lesson.prompt} tokens, that of the turn {turn.prompts.shape[1]}"
    is_allowed = np.isin(lesson.tokens[:, lesson.prompt :], turn.allowed)
    return "" if is_allowed.all() else "the teacher replies with a token that the turn does not allow"


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
