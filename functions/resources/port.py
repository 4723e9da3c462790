"""How an environment asks resources, and the port through which a task's questions reach them.

`RESOURCES` is what factories of environments are given. While a task runs it asks what the task bound, which asks the
host of its process for what is not known yet: the pool of this machine, this process itself, or a function on AWS.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import get_ident, local
from typing import Protocol

import msgspec

from marless.functions.environments.base import EnvironmentFault
from marless.functions.resources.settings import Resource

MOST_BYTES = 16 << 20
"""Of a question, and of an answer."""


class ResourceFault(EnvironmentFault):
    """A resource gave no answer; the message is one line, which names the resource and the cause."""


class ResourceCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One question to a resource."""

    question: bytes
    key: str = ""
    """The name of its answer among the run's objects, a hash of resource and question; '' where none is kept."""
    asked_by: str = ""
    """The id of the work item that asks."""


class CallOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a call ended: with an answer, or with an error after its last attempt."""

    answer: bytes = b""
    error: str = ""
    """One line; '' where there is an answer."""
    paid: bool = True
    """Whether the work item that asks pays; not for a kept answer for which another one paid."""
    queued_ms: float = 0.0
    """How long it waited for a slot."""
    run_ms: float = 0.0
    """How long the resource worked at it, all attempts together; of a kept answer, how long it did at that time."""
    slot: int = 0
    """The slot that served it last."""
    attempts: int = 1
    """How often the resource was asked, each of which is billed; 0 for an answer that was there."""
    pause_s: float = 0.0
    """The resource asks to be left alone for so long. The question is then asked again, and this attempt does not
    count."""
    is_down: bool = False
    """The resource answers no question at all."""
    puts: int = 0
    """Objects that keeping the answer stored."""
    gets: int = 0
    """Objects that it looked for."""


class CallAttempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the process of a resource is sent: one attempt at a call. Encoded as MessagePack."""

    name: str
    resource: Resource
    call: ResourceCall = msgspec.field(name="action")
    cores: int = 1
    failed: int = 0
    """How many attempts have failed before."""
    failed_ms: float = 0.0
    """How long the resource worked at those."""


class Host(Protocol):
    """Has calls served. It knows the resources' settings; who asks names a resource by its name alone."""

    def ask(self, name: str, calls: Sequence[ResourceCall]) -> list[CallOutcome]:
        """The outcomes in the order of the calls, which are served side by side as far as there are slots; returns
        when all have ended. Raises `ResourceFault` for a name that it does not know."""


class Resources(Protocol):
    """What environments ask."""

    def call(self, name: str, questions: Sequence[bytes]) -> list[bytes]:
        """The answers in the order of the questions, which are asked side by side; returns when all are there.

        Raises `ResourceFault` when there is no such resource, or one of the questions has no answer.
        """

    def kept_as(self, name: str, question: bytes) -> str:
        """The key of the object that keeps the answer to a question, for who finds it of no use: it is asked again
        where this is deleted. '' where answers are not kept."""


class ProcessResources:
    """The resources that environments of this process ask.

    Each thread asks the resources that it has bound itself. A thread without resources, such as a helper thread of an
    environment, asks the resources of the only thread that has some. It is refused if several threads have some.
    """

    def __init__(self) -> None:
        self.host: Host | None = None
        """What serves the calls of this process's tasks; None where nothing does."""
        self.restart_clock: Callable[[], None] = lambda: None
        """Tells whoever limits the time of this process's task that it has only waited for another process so far."""
        # By thread, the innermost last.
        self._bound: dict[int, list[Resources]] = {}
        # What a single thread asks in its place.
        self._of_thread = local()

    def call(self, name: str, questions: Sequence[bytes]) -> list[bytes]:
        """See `Resources`."""
        try:
            return self._current().call(name, questions)
        except LookupError as error:
            raise ResourceFault(f"resource {name!r}: {error.args[0]}") from None

    def kept_as(self, name: str, question: bytes) -> str:
        """See `Resources`."""
        with suppress(LookupError):
            return self._current().kept_as(name, question)
        return ""

    @contextmanager
    def bind(self, resources: Resources) -> Iterator[None]:
        """Has this thread ask `resources` until the block ends, which may be in another thread."""
        thread = get_ident()
        self._bound.setdefault(thread, []).append(resources)
        try:
            yield
        finally:
            self._bound[thread].remove(resources)
            if not self._bound[thread]:
                del self._bound[thread]

    @contextmanager
    def bind_thread(self, resources: Resources) -> Iterator[None]:
        """Has only this thread ask `resources` until the block ends. Other threads do not fall back to them."""
        before, self._of_thread.bound = getattr(self._of_thread, "bound", None), resources
        try:
            yield
        finally:
            self._of_thread.bound = before

    @contextmanager
    def hosted(self, host: Host) -> Iterator[None]:
        """Has `host` serve the calls, until the block ends."""
        before, self.host = self.host, host
        try:
            yield
        finally:
            self.host = before

    def _current(self) -> Resources:
        """Return the resources of this thread. Raises `LookupError`, with the reason, if there are none to ask."""
        of_thread: Resources | None = getattr(self._of_thread, "bound", None)
        if of_thread is not None:
            return of_thread
        bound = dict(self._bound)
        choice = bound.get(get_ident()) or next(iter(bound.values()), None)
        if choice is None:
            raise LookupError("no run is asked here; ask inside of a task, or marless.resources.local")
        if len(bound) > 1 and get_ident() not in bound:
            raise LookupError(
                f"{len(bound)} threads have resources, and this thread has none; ask in a thread that has bound its own"
            )
        return choice[-1]


RESOURCES = ProcessResources()
"""Those of this process."""
