"""`text/check`: a writer writes a program, and a checker who reads it says whether it is right.

A judge runs it in a sandbox (`marless.functions.resources.code_judge`). The writer gets the judge's grade. The checker
gets 1 if its verdict agrees with the judge. So neither gets rewards for the other's work. The judge is the resource
that `task.options.judge` names.
"""

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from marless.functions.encoding import JsonDecoder, Undecodable, to_json
from marless.functions.environments.base import EnvironmentFault, EnvTask, options_of
from marless.functions.resources.code_judge import Assignment
from marless_language.protocol import Lesson, Outcome, TokenArray, Tokenizer, Turn
from marless_language.symbols import Symbols
from marless_language.tasks.prompts import NUMBERS, beside, same_length, single_tokens

if TYPE_CHECKING:
    from marless.functions.resources.port import Resources

_LEAST, _MOST = 1, 5
_DIGITS = tuple(map(str, range(_LEAST, _MOST + 1)))
_OPERATORS = {"plus": "+", "minus": "-", "times": "*"}
# By operator and operands.
_VALUES = np.stack([each.outer(range(_MOST + 1), range(_MOST + 1)) for each in (np.add, np.subtract, np.multiply)])
# The operands, and the position of the operator between them.
_NUMBERS = range(_LEAST, _MOST + 1)
_TARGETS = [(x, operator, y) for x in _NUMBERS for operator in range(len(_OPERATORS)) for y in _NUMBERS]
_TASK, _PROGRAM, _QUESTION = ("To print ", " ", ", write "), ("print(", ")"), ". Is that right? "
_VERDICTS = ("yes", "no")
_WORDS = NUMBERS[_LEAST : _MOST + 1]
SYMBOLS = (*_DIGITS, *_OPERATORS.values(), *_WORDS, *_OPERATORS, *_TASK, *_PROGRAM, _QUESTION, *_VERDICTS)
# How often the teacher takes the wrong operator, or judges a program wrongly.
_WRONG = 0.45
_GRADES = JsonDecoder[float](float)


class _Options(msgspec.Struct, forbid_unknown_fields=True):
    judge: str = "judge"


class Check:
    """The task. See the module."""

    roles = ("writer", "checker")
    sides: tuple[int, ...] = ()
    turns = 2

    def __init__(self, tokenizer: Tokenizer, resources: "Resources", judge: str = "judge") -> None:
        """Raises `ValueError` for a vocabulary without a token for every digit, operator and verdict."""
        self.tokenizer, self._resources, self._judge = tokenizer, resources, judge
        self._symbols = single_tokens(tokenizer, (*_DIGITS, *_OPERATORS.values()))
        self._verdicts = single_tokens(tokenizer, _VERDICTS)
        before, between, after = _TASK
        words = [(NUMBERS[x], tuple(_OPERATORS)[operator], NUMBERS[y]) for x, operator, y in _TARGETS]
        texts = [f"{before}{between.join(of_target)}{after}{_PROGRAM[0]}" for of_target in words]
        self._prompts = same_length(tokenizer, texts)
        self._question = tokenizer.encode(f"{_PROGRAM[1]}{_QUESTION}")
        self.context = self._prompts.shape[1] + 3 + len(self._question) + 1

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """Asks the writers."""
        self._target = rng.integers(len(_TARGETS), size=episodes // copies).repeat(copies)
        self._programs: TokenArray | None = None
        return Turn(0, self._prompts[self._target], np.sort(self._symbols), length=3)

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """Asks the checkers, and then the judge."""
        if self._programs is None:
            self._programs = replies
            prompts = beside(self._prompts[self._target], replies, self._question)
            return Turn(1, prompts, np.sort(self._verdicts), length=1)
        grades = self._grades(self._programs)
        says_yes = replies[:, 0] == self._verdicts[0]
        checked = (says_yes == (grades == 1.0)).astype(np.float64)
        metrics = {"written": grades, "checked": checked, "success": grades * checked}
        return Outcome(np.stack([grades, checked], axis=1), metrics)

    def _grades(self, programs: TokenArray) -> np.ndarray:
        """``[E]``, asked side by side. Raises `ResourceFault` and, for an answer that is no grade,
        `EnvironmentFault`."""
        questions = []
        for written, target in zip(programs.tolist(), self._target.tolist(), strict=True):
            first, operator, second = _TARGETS[target]
            program = self.tokenizer.decode(written).join(_PROGRAM)
            questions.append(to_json(Assignment(program=program, output=str(_VALUES[operator, first, second]))))
        answers = self._resources.call(self._judge, questions)
        try:
            return np.array([_GRADES.decode(answer) for answer in answers])
        except Undecodable as error:
            raise EnvironmentFault(f"resource {self._judge!r}: its answer is no grade: {error}") from error

    def lessons(self, rng: np.random.Generator, examples: int) -> tuple[Lesson, ...]:
        """A teacher who often takes another operator, and often judges wrongly."""
        target = rng.integers(len(_TARGETS), size=examples)
        first, right, second = np.array(_TARGETS).T[:, target]
        others = (right + rng.integers(1, len(_OPERATORS), size=examples)) % len(_OPERATORS)
        operators = np.where(rng.random(examples) < _WRONG, others, right)
        numbers = (first - _LEAST, len(_DIGITS) + operators, second - _LEAST)
        programs = np.stack([self._symbols[number] for number in numbers], axis=1)
        results = [_VALUES[operators, first, second] == _VALUES[right, first, second], rng.random(examples) >= _WRONG]
        verdicts = self._verdicts[(results[0] != results[1]).astype(int)][:, None]
        prompts = self._prompts[target]
        questions = beside(prompts, programs, self._question)
        return (
            Lesson(beside(prompts, programs), prompts.shape[1]),
            Lesson(beside(questions, verdicts), questions.shape[1]),
        )


def make(task: EnvTask, tokenizer: Tokenizer | None, resources: "Resources") -> Check:
    """Return the task with the vocabulary of a base, or with its default vocabulary. Raises `ValueError`."""
    return Check(tokenizer or Symbols(SYMBOLS), resources, options_of(task, _Options).judge)
