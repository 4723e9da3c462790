"""The interface of each kind of resource in the process that serves it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from marless.functions.resources.port import ResourceCall


class NoAnswer(Exception):
    """The resource gave no answer. The message is one line that says why."""


class Start(NamedTuple):
    """The arguments of `subprocess.Popen` for a command."""

    words: Sequence[str]
    environment: Mapping[str, str]
    descriptors: Sequence[int] = ()
    # The descriptor of its errors, by default this process's own.
    errors: int | None = None


class NotServing(NoAnswer):
    """The resource answers no question at all."""


class AskLater(NotServing):
    """The resource asks to be left alone for `pause_s` seconds, and is then asked again."""

    def __init__(self, message: str, pause_s: float) -> None:
        super().__init__(f"{message}; it asks to be left alone for {pause_s:,.10g} s")
        self.pause_s = pause_s


class ResourceKind(Protocol):
    """A resource that was begun in this process. It serves one call at a time, and is kept for the next."""

    def answer(self, call: ResourceCall, cores: int) -> object:
        """Return the resource's answer to the question. `cores` are the call's.

        Raises `NoAnswer`, and errors of foreign code. The next question is asked all the same.
        """

    def close(self) -> None:
        """Ends the resource's programs and connections. Idempotent."""
