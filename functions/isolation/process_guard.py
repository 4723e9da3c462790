"""Guards this process against foreign code: its changes are put back, or refused.

Environments, networks and algorithms of others run in the same process as our mathematics. Their effects on the process
must not reach our numbers and files. Nor may they depend on how many tasks the process has served: or weights would
depend on the number of workers. So everything that can be put back is put back when such code returns. After every
single call these are the processor's rounding and numpy's error state (`restore_arithmetic_after`). The rest follows
when a piece of work ends (`restore`). Replaced functions are put back too, but the work during which it happened is
refused, because its results are in doubt. Code that changes the rounding in some calls only is refused for the same
reason.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import local
from typing import Any, Self

import numpy as np

from marless.functions.isolation.arithmetic import ARITHMETIC, standard_arithmetic
from marless.functions.isolation.foreign_imports import IMPORTS
from marless.functions.isolation.process_state import COMPUTED_WITH, PARTS, ProcessPart
from marless.functions.isolation.replaced_functions import ORIGINALS

# As numpy is imported.
_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
_ROUNDING = "how numbers are rounded"
_TRAPS = "how the processor treats numbers near zero and errors"
_ERROR_STATE = "numpy's error state"
# So many replaced functions are named.
_NAMED = 3


class ProcessChanged(Exception):
    """Code changed the process in a way that spoils the current work. The message names the change."""


class _Process:
    def __init__(self) -> None:
        # Whether the first call of a method left another rounding behind.
        self.first: dict[str, bool] = {}
        # The `PARTS` as the code left them, and the functions that it replaced, by run and owner.
        self.environment_state: dict[tuple[str, str], list[Any]] = {}
        self.replaced: dict[tuple[str, str], str] = {}


class _Thread(local):
    guard: "ProcessGuard | None" = None


_process, _thread = _Process(), _Thread()


class ProcessGuard:
    """Surrounds a piece of work of `run` that calls code of `owner`, an env task or an algorithm.

    Within it numbers are rounded to nearest and numpy warns by its defaults, in any state of the process.
    """

    def __init__(self, owner: str, run: str = "") -> None:
        self._owner, self._key = owner, (run, owner)
        self.changed: dict[str, None] = {}
        """What was changed and put back, in words."""
        self.said: list[str] = []
        """What the work itself has to tell the user."""
        self.restored = False
        """Whether no code of others has been called since all was put back."""

    def __enter__(self) -> Self:
        self._opened = ExitStack()
        self._opened.enter_context(standard_arithmetic())
        self._opened.enter_context(np.errstate(call=None, **_ERRORS))  # type: ignore[arg-type]
        ORIGINALS.learn()
        if IMPORTS.look():
            ORIGINALS.accept_ours()
        self._computed_with = [part.read() for part in COMPUTED_WITH]
        self._own_state = [part.read() for part in PARTS]
        if IMPORTS.foreign and self._key in _process.environment_state:
            _put_back(PARTS, self._own_state, _process.environment_state[self._key])
        self._outer, _thread.guard = _thread.guard, self
        return self

    def __exit__(self, *_: object) -> None:
        if not self.restored:
            self.put_back()
        _thread.guard = self._outer
        self._opened.close()

    def remarks(self) -> tuple[str, ...]:
        """Return the messages of the work and the changes, for a user."""
        back = "in its process; MARLess puts it back before it computes"
        return (*dict.fromkeys(self.said), *(f"{self._owner} changes {part} {back}" for part in self.changed))

    def put_back(self) -> None:
        """Puts back all that code of others has changed."""
        restore_arithmetic()
        self.restored = True
        if not IMPORTS.look():  # all code is ours
            return
        changes = _put_back(COMPUTED_WITH, [part.read() for part in COMPUTED_WITH], self._computed_with)
        environment_state = [part.read() for part in PARTS]
        if environment_state != self._own_state:
            _process.environment_state[self._key] = environment_state
            changes += _put_back(PARTS, environment_state, self._own_state)
        self.changed.update(dict.fromkeys(changes))
        if names := ORIGINALS.put_back():
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            _process.replaced[self._key] = f"{', '.join(names[:_NAMED])}{more}"

    def require_originals(self) -> None:
        """Raises `ProcessChanged` when functions were replaced in this process by the owner, now or earlier."""
        if names := _process.replaced.get(self._key):
            raise ProcessChanged(
                f"{self._owner} replaces {names} in its process, with which weights are computed; it must leave them"
            )


def restore() -> None:
    """Put back changes of foreign code, before our code computes or writes.

    Raises `ProcessChanged` when it replaced functions. It acts only within a `ProcessGuard`.
    """
    if (guard := _thread.guard) is not None:
        guard.put_back()
        guard.require_originals()


def remark(text: str) -> None:
    """Tell the user a line, with the answer of the current work. Outside a `ProcessGuard` it is dropped."""
    if (guard := _thread.guard) is not None:
        guard.said.append(text)


def process_is_modified() -> bool:
    """Return whether code has replaced functions in this process, so that its later work would be refused."""
    return bool(_process.replaced)


def state_of_process() -> list[Any]:
    """Return the state that other tasks of this process find, equal for equal states."""
    return [ARITHMETIC.read(), np.geterr(), *(part.read() for part in PARTS)]


def restore_arithmetic(call: str = "") -> None:
    """Within a `ProcessGuard`: rounds to nearest again, and has numpy warn as by default, after a `call` of code that
    is not ours: ``<owner>, <method>``.

    Raises `ProcessChanged` if the call leaves another rounding behind and the first such call did not. Its result then
    depends on how many calls the process has seen.
    """
    guard = _thread.guard
    if guard is None:
        return
    guard.restored = False
    if np.geterr() != _ERRORS:
        np.seterr(**_ERRORS)  # type: ignore[arg-type]
        guard.changed[_ERROR_STATE] = None
    registers, has_changed = ARITHMETIC.read(), False
    if registers != ARITHMETIC.standard:
        ARITHMETIC.write(ARITHMETIC.standard)
        has_changed = not ARITHMETIC.rounds_to_nearest(registers)
        guard.changed[_ROUNDING if has_changed else _TRAPS] = None
    if call and has_changed and not _process.first.get(call, True):
        raise ProcessChanged(f"it changes {_ROUNDING} in some calls and not in others")
    _process.first.setdefault(call, has_changed)


@contextmanager
def restore_arithmetic_after(call: str) -> Iterator[None]:
    """Surrounds a `call`, see `restore_arithmetic`."""
    try:
        yield
    except BaseException:
        restore_arithmetic()
        raise
    restore_arithmetic(call)


def _put_back(parts: tuple[ProcessPart, ...], now: list[Any], before: list[Any]) -> list[str]:
    """Restore the parts that differ. Return the names of changes that users should know."""
    names = []
    for part, is_, was in zip(parts, now, before, strict=True):
        if not part.same(is_, was):
            part.put_back(was)
            if part.is_reported:
                names.append(part.name)
    return names
