"""Errors with self-contained messages: Python shows them without the frames of this package."""

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar
from warnings import warn

from marless.rounding import exact_arithmetic

P = ParamSpec("P")
R = TypeVar("R")


def is_user_error(error: BaseException) -> bool:
    """Return whether the message is one line for the user."""
    from marless.coordinator.config.schema import ConfigError
    from marless.coordinator.drive.ledger_items import Unresumable
    from marless.coordinator.errors import UserError
    from marless.functions.encoding import Undecodable
    from marless.functions.errors import CorruptObject, MissingExtra, NoSuchObject, StaleVersion, StorageFault

    ours = (
        ConfigError, Unresumable, CorruptObject, NoSuchObject, MissingExtra, StaleVersion, StorageFault, Undecodable
    )  # fmt: skip
    return isinstance(error, (UserError, *ours))


def require_list(name: str, value: object) -> None:
    """Raise `UserError` unless the value is a list or a tuple."""
    from marless.coordinator.errors import UserError

    if not isinstance(value, list | tuple):
        raise UserError(f"{name} is a list: write {name}=[...], with one value or more")


def path_of(run: object) -> str:
    """Return the name or the path of a run. Raise `UserError` for another object."""
    from marless.coordinator.errors import UserError

    if isinstance(run, str | os.PathLike):
        return os.fspath(run)
    play = "; policies play by policy.play(environment)" if hasattr(run, "play") else ""
    raise UserError(f"{type(run).__name__} is no run: pass a run, its name or its folder{play}")


def short_errors(*others: type[BaseException], **renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a public function raise errors for the user, and `others`, from here.

    Their tracebacks begin with the caller's lines and end with the call. All other errors keep their frames. The
    function computes with `exact_arithmetic`. It takes `renamed` keywords, with a `FutureWarning` of the new name."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for word in renamed.keys() & kwargs.keys():
                warn(f"{word}= of {function.__name__} is now {renamed[word]}=", FutureWarning, stacklevel=2)
                kwargs[renamed[word]] = kwargs.pop(word)
            try:
                with exact_arithmetic():
                    return function(*args, **kwargs)
            except BaseException as error:
                if not isinstance(error, others) and not is_user_error(error):
                    raise
                raise error.with_traceback(None) from None

        return call

    return decorate
