"""A language task's attributes, turns and outcomes: any of another kind is one line."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from marless.functions.environments.base import EnvironmentFault
from marless.functions.errors import BadRequest
from marless_language.base_request import lessons_of
from marless_language.episodes import Episodes, fault_of
from marless_language.experience import Sampled
from marless_language.handler import _env_metrics
from marless_language.playing import Transcript
from marless_language.protocol import Lesson, Outcome, Turn
from marless_language.symbols import Symbols
from marless_language.trajectories import join, tensors_of

LETTERS = np.array([0, 1, 2], np.int32)


class Task:
    def __init__(self, turn: Any = None, outcome: Any = None, **attributes: Any) -> None:
        self.roles, self.sides, self.turns, self.context = ("one",), (), 1, 4
        self.tokenizer, self.turn, self.outcome = Symbols(["a", "b", "c"]), turn or {}, outcome
        for name, value in attributes.items():
            setattr(self, name, value)

    def reset(self, rng: Any, episodes: int, copies: int = 1) -> Turn:
        return Turn(
            **{"role": 0, "prompts": np.zeros((episodes, 1), np.int32), "allowed": LETTERS, "length": 1} | self.turn
        )

    def reply(self, replies: Any) -> Any:
        return self.outcome


def outcome_of(outcome: Any) -> Any:
    play = Episodes("task", Task(outcome=outcome))
    play.reset(np.random.default_rng(0), 2)
    return play.reply(np.zeros((2, 1), np.int32))


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        ({"role": "one"}, "role is 'one', no whole number"),
        ({"role": None}, "role is None, no whole number"),
        ({"role": True}, "role is True, no whole number"),
        ({"role": 1}, "role 1 of 1"),
        ({"length": 1.5}, "length is 1.5, no whole number"),
        ({"length": 0}, "0 tokens of a reply"),
        ({"end": "a"}, "end is 'a', no whole number"),
        ({"end": 9}, "a token that ends a reply is not among them"),
        ({"ends": [1]}, "ends is [1], no tuple"),
        ({"ends": (1, 9)}, "a token that ends a reply is not among them"),
        ({"allowed": [0, 1]}, "allowed are no array of int32"),
        ({"prompts": None}, "prompts are no array of int32"),
        ({"legal": "all"}, "legal is no array of booleans"),
    ],
    ids=repr,
)
def test_turns_of_another_kind_are_one_line(turn: dict[str, Any], words: str):
    with pytest.raises(EnvironmentFault, match="task, turn 1, reset: ") as fault:
        Episodes("task", Task(turn)).reset(np.random.default_rng(0), 2)
    assert words in str(fault.value) and "\n" not in str(fault.value)


class PanicException(BaseException):
    """A package in Rust raises an error of this name."""


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("no\nturns"), KeyError("turns")], ids=repr)
def test_attributes_that_raise_are_one_line(error: BaseException):
    class Broken(Task):
        @property
        def sides(self) -> Any:
            raise error

        @sides.setter
        def sides(self, sides: Any) -> None:
            pass

    fault = fault_of(Broken())
    assert "its attributes cannot be read: " in fault and type(error).__name__ in fault and "\n" not in fault


@pytest.mark.parametrize("error", [SystemExit(3), PanicException("index")], ids=repr)
def test_task_that_exits_or_panics_is_one_line(error: BaseException):
    class Broken(Task):
        def reset(self, rng: Any, episodes: int, copies: int = 1) -> Turn:
            raise error

        def lessons(self, rng: Any, examples: int) -> Any:
            raise error

    for call in (lambda: Episodes("task", Broken()).reset(0, 2), lambda: lessons_of(Broken(), "task", 0)):
        with pytest.raises(EnvironmentFault, match=type(error).__name__) as fault:
            call()
        assert str(fault.value).startswith("task, ") and "\n" not in str(fault.value)


def test_whole_numbers_of_numpy_are_whole_numbers():
    turn = {
        "role": np.int64(0),
        "length": np.int32(1),
        "end": np.int64(2),
        "common": np.int64(0),
        "ends": (np.int64(1),),
    }
    given = Episodes("task", Task(turn)).reset(np.random.default_rng(0), 2)
    assert (type(given.role), type(given.length)) == (int, int)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome(np.full((2, 1), 1e300)), "rewards are no array of 2 x 1 finite numbers"),
        (Outcome(np.full((2, 1), -1e39)), "rewards are no array of 2 x 1 finite numbers"),
        (Outcome([[1.0], [0.0]]), "rewards are no array"),
        (Outcome(np.ones((2, 1)), None), "metrics are NoneType, no arrays by name"),
        (Outcome(np.ones((2, 1)), [1.0, 2.0]), "metrics are list, no arrays by name"),
        (Outcome(np.ones((2, 1)), {1: np.ones(2)}), "metrics are dict, no arrays by name"),
        (Outcome(np.ones((2, 1)), {"won": 1.0}), "metric won is no array of 2 finite numbers"),
        (Outcome(np.ones((2, 1)), {"won": np.ones(3)}), "metric won is no array of 2 finite numbers"),
        (Outcome(np.ones((2, 1)), {"won": np.array(["a", "b"])}), "metric won is no array of 2 finite numbers"),
        (None, "returned NoneType, neither a Turn nor an Outcome"),
        ((np.ones((2, 1)), {}), "returned tuple, neither a Turn nor an Outcome"),
    ],
    ids=repr,
)
def test_outcomes_of_another_kind_are_one_line(outcome: Any, words: str):
    with pytest.raises(EnvironmentFault, match="task, turn 2, reply: ") as fault:
        outcome_of(outcome)
    assert words in str(fault.value) and "\n" not in str(fault.value)


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64", "float16", "float32", ">f8"])
def test_numbers_of_any_type_are_rewards(kind: str):
    assert outcome_of(Outcome(np.array([[1], [0]], kind))).rewards.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"roles": "one"}, "roles is 'one': must be names"),
        ({"roles": (0, 1)}, "roles is (0, 1): must be names"),
        ({"roles": None}, "roles is None: must be names"),
        ({"roles": ("one", "one")}, "agents are not one or more different names"),
        ({"sides": None}, "sides is None: must be whole numbers"),
        ({"sides": (0.5,)}, "sides is (0.5,): must be whole numbers"),
        ({"turns": "2"}, "turns is '2': must be a whole number"),
        ({"turns": 0}, "turns is 0"),
        ({"context": None}, "context is None: must be a whole number"),
        ({"tokenizer": None}, "tokenizer is None: must be one with size"),
    ],
    ids=repr,
)
def test_attributes_of_another_kind_are_named(attributes: dict[str, Any], words: str):
    assert words in fault_of(Task(**attributes))


@pytest.mark.parametrize(
    ("lessons", "words"),
    [
        (None, "returned NoneType, not a tuple of Lesson"),
        (KeyError("word"), "KeyError: 'word'"),
        ([(1, 2, 3)], "number 0 is tuple, not a Lesson"),
        ([Lesson([[0, 1]], 1)], "number 0 has tokens that are no array of int32"),
        ([Lesson(np.zeros((2, 2), np.int64), 1)], "number 0 has tokens that are no array of int32"),
        ([Lesson(np.full((2, 2), 3, np.int32), 1)], "number 0 has tokens outside of the vocabulary of 3"),
        ([Lesson(np.zeros((2, 2), np.int32), 2)], "number 0 has a prompt of 2 of 2 tokens"),
        ([Lesson(np.zeros((2, 2), np.int32), "1")], "number 0 has a prompt of '1' of 2 tokens"),
    ],
    ids=repr,
)
def test_lessons_of_another_kind_are_one_line(lessons: Any, words: str):
    task = Task()

    def taught(rng: Any, examples: int) -> Any:
        if isinstance(lessons, Exception):
            raise lessons
        return lessons

    task.lessons = taught
    with pytest.raises(EnvironmentFault, match="task, lessons: ") as fault:
        lessons_of(task, "task", 0)
    assert words in str(fault.value) and "\n" not in str(fault.value)


class Whisper(Task):
    """A second role reads the first one's reply, which has two letters. In odd episodes it may say only c."""

    def __init__(self) -> None:
        super().__init__(roles=("one", "two"), turns=2, tokenizer=Symbols(["a", "b", "c"]))

    def reset(self, rng: Any, episodes: int, copies: int = 1) -> Turn:
        self.prompts = rng.integers(3, size=(episodes, 1)).astype(np.int32)
        return Turn(0, self.prompts, LETTERS[:2], 2)

    def reply(self, replies: Any) -> Turn:
        assert replies.shape[1] == 2, "the last reply is not given: a judge may have to be asked"
        legal = np.ones((len(replies), 3), np.bool_)
        legal[1::2, :2] = False
        return Turn(1, np.concatenate([self.prompts, replies], axis=1), LETTERS, 1, legal=legal)

    def lessons(self, rng: Any, examples: int) -> tuple[()]:
        return ()


def test_teacher_without_lessons_says_any_legal_tokens():
    task = Whisper()
    symbols, (first, second) = lessons_of(task, "task", 0)
    assert symbols is task.tokenizer
    assert (first.prompt, first.tokens.shape[1], second.prompt, second.tokens.shape[1]) == (1, 3, 3, 4)
    # Two of two letters: each of the four pairs is a quarter. Half of the episodes allow three letters, half only c.
    pairs = np.bincount(first.tokens[:, 1] * 2 + first.tokens[:, 2], minlength=4) / len(first.tokens)
    np.testing.assert_allclose(pairs, 1 / 4, atol=0.03)
    letters = np.bincount(second.tokens[:, 3], minlength=3) / len(second.tokens)
    np.testing.assert_allclose(letters, [1 / 6, 1 / 6, 2 / 3], atol=0.03)
    assert {*map(tuple, second.tokens[:, :3])} <= {*map(tuple, first.tokens)}


def test_fault_in_task_without_lessons_names_its_turn():
    task = Whisper()
    task.reply = lambda replies: 1 / 0
    with pytest.raises(EnvironmentFault, match=r"task, turn 2, reply: .*ZeroDivisionError"):
        lessons_of(task, "task", 0)


def test_a_vocabulary_of_another_kind_is_named():
    with pytest.raises(BadRequest, match="task has a vocabulary of type SimpleNamespace"):
        lessons_of(Task(tokenizer=SimpleNamespace(size=3)), "task", 0)


def transcript(metrics: dict[str, Any]) -> Transcript:
    return Transcript((), Outcome(np.ones((2, 1)), metrics))


def test_metrics_are_means_over_episodes_that_all_have():
    one, two = {"won": np.array([1.0, 0.0])}, {"won": np.array([1.0, 1.0])}
    assert _env_metrics("task", [transcript(one), transcript(two)]) == {"won": 0.75}
    for parts in ([one, {}], [{}, one], [one, {"lost": np.ones(2)}]):
        with pytest.raises(
            EnvironmentFault, match=r"task, reply: metric (won|lost) is returned of some episodes alone"
        ):
            _env_metrics("task", list(map(transcript, parts)))


@pytest.mark.parametrize("longer", [0, 1])
def test_rollouts_with_different_turn_counts_are_one_line(longer: int):
    from marless_language.episodes import spec_of

    turn = Task().reset(None, 2)
    sampled = Sampled.at_random(turn, np.random.default_rng(0))
    every = {}
    for rollout in (0, 1):
        every |= tensors_of(rollout, [(turn, sampled)] * (1 + (rollout == longer)), np.ones((2, 1)))
    with pytest.raises(BadRequest, match="turn 2 is not in all rollouts"):
        join(spec_of(Task(turns=2)), every, [0, 1])


def test_further_end_tokens_end_a_reply():
    turn = Turn(0, np.zeros((3, 1), np.int32), LETTERS, 3, end=0, ends=(2,))
    replies = np.array([[1, 2, 1], [1, 0, 1], [1, 1, 1]], np.int32)
    sampled = Sampled.of(turn, replies, np.full((3, 3), -1, np.float32))
    assert sampled.replies.tolist() == [[1, 2, 0], [1, 0, 0], [1, 1, 1]]
    assert sampled.mask.sum(axis=1).tolist() == [2, 2, 3] and sampled.log_probability.sum() == -7
