"""Episodes of a language task for players: they check the task's turns and outcomes, and have the spec of its
agents."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from marless.functions.environments.base import AgentClass, EnvironmentFault, EnvSpec
from marless.functions.environments.pettingzoo.guard import describe_error_with_location
from marless.functions.environments.spec_check import fault_of as _spec_fault_of
from marless.functions.errors import foreign_errors
from marless.functions.isolation.process_guard import restore_arithmetic
from marless.functions.setting_limits import LARGEST_FLOAT32
from marless_language.protocol import LanguageTask, Outcome, TokenArray, Turn

# The name of the class of agents if all roles may share networks.
_CLASS = "speaker"
_LISTS = (Sequence, np.ndarray)


class Episodes:
    """Episodes of a task that are played once, together. Raises `EnvironmentFault` if the task raises or breaks the
    protocol: one line that names the task, the turn and the fault."""

    def __init__(self, name: str, task: LanguageTask, context: int | None = None) -> None:
        """`context`: the most tokens of a prompt and its reply that the model takes, or None."""
        self._name, self._task, self._context = name, task, context
        self._turns, self._episodes, self._metrics = 0, 0, None
        self._roles, self._vocabulary = len(task.roles), task.tokenizer.size

    def reset(self, rng: np.random.Generator, episodes: int, copies: int = 1) -> Turn:
        """The first turn. See `LanguageTask.reset`."""
        self._turns, self._episodes = 0, episodes
        turn = self._call("reset", lambda: self._task.reset(rng, episodes, copies))
        if not isinstance(turn, Turn):
            raise self._fault("reset", f"returned {type(turn).__name__}, not a Turn")
        return self._checked("reset", turn)

    def reply(self, replies: TokenArray) -> Turn | Outcome:
        """The next turn, or how the episodes ended. See `LanguageTask.reply`."""
        self._turns += 1
        answer = self._call("reply", lambda: self._task.reply(replies))
        if isinstance(answer, Outcome):
            return self._checked_outcome(answer)
        if not isinstance(answer, Turn):
            raise self._fault("reply", f"returned {type(answer).__name__}, neither a Turn nor an Outcome")
        if self._turns >= self._task.turns:
            raise self._fault("reply", f"asks for turn {self._turns + 1} of {self._task.turns}")
        return self._checked("reply", answer)

    def _call(self, method: str, call: Callable[[], Any]) -> Any:
        try:
            answer = call()
        except EnvironmentFault:
            restore_arithmetic()
            raise
        except foreign_errors() as error:
            restore_arithmetic()
            raise self._fault(method, describe_error_with_location(error)) from error
        restore_arithmetic(f"{self._name}, {method}")
        return answer

    def _checked(self, method: str, turn: Turn) -> Turn:
        if problem := _number_problem(turn) or self._problem(turn):
            raise self._fault(method, problem)
        return turn._replace(role=int(turn.role), length=int(turn.length))

    def _problem(self, turn: Turn) -> str:
        """Return the fault of a turn, or ''."""
        if not 0 <= turn.role < self._roles or turn.length < 1:
            return f"role {turn.role} of {self._roles}, and {turn.length} tokens of a reply"
        for what, tokens, shape in (
            ("prompts", turn.prompts, (self._episodes, None)),
            ("allowed", turn.allowed, (None,)),
        ):
            if problem := _token_problem(what, tokens, shape, self._vocabulary):
                return problem
        ends = (*turn.ends, *([] if turn.end is None else [turn.end]))
        if (np.diff(turn.allowed) <= 0).any() or not np.isin(ends, turn.allowed).all():
            return "allowed is not ascending, or a token that ends a reply is not among them"
        if problem := _common_problem(turn) or _legal_problem(turn):
            return problem
        return self._context_problem(turn.prompts.shape[1] + turn.length)

    def _context_problem(self, tokens: int) -> str:
        for most, whose in ((self._task.context, "the task's context"), (self._context, "the model's context")):
            if most is not None and tokens > most:
                return f"prompt and reply have {tokens} tokens, and {whose} {most}"
        return ""

    def _checked_outcome(self, outcome: Outcome) -> Outcome:
        shape = (self._episodes, self._roles)
        if not _is_finite(outcome.rewards, shape):
            raise self._fault("reply", f"rewards are no array of {shape[0]} x {shape[1]} finite numbers below 3.5e38")
        if not isinstance(outcome.metrics, Mapping) or not all(isinstance(name, str) for name in outcome.metrics):
            raise self._fault("reply", f"metrics are {type(outcome.metrics).__name__}, no arrays by name")
        for name, values in outcome.metrics.items():
            if not _is_finite(values, shape[:1]):
                raise self._fault("reply", f"metric {name} is no array of {shape[0]} finite numbers below 3.5e38")
        return outcome

    def _fault(self, method: str, what: str) -> EnvironmentFault:
        return EnvironmentFault(f"{self._name}, turn {self._turns + 1}, {method}: {what}")


def _is_finite(values: Any, shape: tuple[int, ...]) -> bool:
    is_array = isinstance(values, np.ndarray) and values.shape == shape and values.dtype.kind in "biuf"
    # Sums and squares of larger ones would not be finite.
    return is_array and bool((np.abs(values.astype(np.float64)) <= LARGEST_FLOAT32).all())


def _number_problem(turn: Turn) -> str:
    """The first of a turn's numbers that is of another kind, or ''."""
    for name, value in (("role", turn.role), ("length", turn.length), ("end", 0 if turn.end is None else turn.end)):
        if not _is_whole(value):
            return f"{name} is {value!r:.40}, no whole number"
    is_right = isinstance(turn.ends, tuple) and all(map(_is_whole, turn.ends))
    return "" if is_right else f"ends is {turn.ends!r:.40}, no tuple of whole numbers"


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _token_problem(what: str, tokens: Any, shape: tuple[int | None, ...], vocabulary: int) -> str:
    if not isinstance(tokens, np.ndarray) or tokens.dtype != np.int32 or tokens.ndim != len(shape):
        return f"{what} are no array of int32 with {len(shape)} dimensions"
    if not tokens.size or shape[0] not in (None, len(tokens)):
        expected = ", ".join("1 or more" if size is None else str(size) for size in shape)
        return f"{what} have the shape {tokens.shape}: must be [{expected}]"
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        return f"{what} have tokens outside of the vocabulary of {vocabulary}"
    return ""


def _common_problem(turn: Turn) -> str:
    common, last = turn.common, turn.prompts.shape[1] - 1
    if not isinstance(common, int | np.integer):
        return f"common is of type {type(common).__name__}: must be a whole number from 0 to {last}"
    if not 0 <= common <= last:
        return f"common is {common}: must be from 0 to {last}"
    if (turn.prompts[:, :common] != turn.prompts[0, :common]).any():
        return f"prompts differ in their first {common} tokens"
    return ""


def _legal_problem(turn: Turn) -> str:
    legal, shape = turn.legal, (len(turn.prompts), len(turn.allowed))
    if legal is None or (isinstance(legal, np.ndarray) and legal.dtype == np.bool_ and legal.shape == shape):
        return ""
    return f"legal is no array of booleans of the shape {shape}"


def fault_of(task: Any) -> str:
    """Return the part of its protocol that a task lacks, or ''."""
    try:
        return _attribute_fault(task)
    except foreign_errors() as error:
        return f"its attributes cannot be read: {describe_error_with_location(error)}"


def _attribute_fault(task: Any) -> str:
    missing = [name for name in ("roles", "sides", "turns", "context", "tokenizer") if not hasattr(task, name)]
    if missing:
        return f"{type(task).__name__} has no {', '.join(missing)}"
    if problem := _kind_problem(task):
        return problem
    if task.turns < 1 or task.context < 2:
        return f"turns is {task.turns} and context {task.context}; at least 1 and 2 are needed"
    return _spec_fault_of(spec_of(task))


def _kind_problem(task: Any) -> str:
    """The first attribute of a task that is of another kind, or ''."""
    roles, sides = () if isinstance(task.roles, str) else task.roles, task.sides
    is_right = {
        "roles": isinstance(roles, _LISTS) and len(roles) and all(isinstance(role, str) for role in roles),
        "sides": isinstance(sides, _LISTS) and all(map(_is_whole, sides)),
        "turns": _is_whole(task.turns),
        "context": _is_whole(task.context),
        "tokenizer": _is_whole(getattr(task.tokenizer, "size", None)) and task.tokenizer.size > 0,
    }
    needs = {"roles": "names", "sides": "whole numbers, or ()", "tokenizer": "one with size, encode and decode"}
    return next(
        (
            f"{name} is {getattr(task, name)!r:.60}: must be {needs.get(name, 'a whole number')}"
            for name, is_so in is_right.items()
            if not is_so
        ),
        "",
    )


def spec_of(task: LanguageTask) -> EnvSpec:
    """The roles as agents of one class, so that they may share networks: they see tokens and choose among them."""
    kind = AgentClass(_CLASS, tuple(range(len(task.roles))), task.context, task.tokenizer.size)
    return EnvSpec(agents=tuple(task.roles), classes=(kind,), horizon=task.turns, sides=tuple(task.sides))
