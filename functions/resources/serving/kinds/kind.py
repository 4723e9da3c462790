"""What each kind of resource is for the process that serves it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from marless.functions.resources.port import ResourceCall


class NoAnswer(Exception):
    """The resource gave no answer; the message is one line that says why."""


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
        """What the resource says to the question; `cores` are the call's.

        Raises `NoAnswer`, and whatever code of others raises; the next question is asked all the same.
        """

    def close(self) -> None:
        """Ends what was begun. Idempotent."""
