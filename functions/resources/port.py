"""Ask resources from an environment: the port for a task's questions.

`RESOURCES` is the argument for factories of environments. While a task runs, `RESOURCES` asks the task's `Resources`.
They get new answers from the host of its process: the pool of this machine, this process itself, or a function on AWS.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import get_ident, local
from typing import Protocol

import msgspec

from marless.functions.environments.base import EnvironmentFault
from marless.functions.resources.settings import Resource

MOST_BYTES = 16 << 20
"""The most bytes of a question, and of an answer."""


class ResourceFault(EnvironmentFault):
    """A resource gave no answer. The message is one line, which names the resource and the cause."""


class ResourceCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One question to a resource."""

    question: bytes
    key: str = ""
    """The name of its answer among the run's objects, a hash of resource and question, or '' if it is not kept."""
    asked_by: str = ""
    """The id of the work item that asks."""


class CallOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The end of a call: an answer, or an error after its last attempt."""

    answer: bytes = b""
    error: str = ""
    """One line, or '' with an answer."""
    paid: bool = True
    """Whether the work item that asks pays. A kept answer is free if another item paid for it."""
    queued_ms: float = 0.0
    """How long it waited for a slot."""
    run_ms: float = 0.0
    """How long the resource took, all attempts together. For a kept answer, how long it took at that time."""
    slot: int = 0
    """The slot that served it last."""
    attempts: int = 1
    """How often the resource was asked. Each attempt is billed, and a kept answer has 0."""
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
    """The message to the process of a resource: one attempt at a call. Encoded as MessagePack."""

    name: str
    resource: Resource
    call: ResourceCall = msgspec.field(name="action")
    cores: int = 1
    failed: int = 0
    """How many attempts have failed before."""
    failed_ms: float = 0.0
    """How long the resource worked at these."""


class Host(Protocol):
    """Has calls served. It knows the resources' settings. Callers give only a resource's name."""

    def ask(self, name: str, calls: Sequence[ResourceCall]) -> list[CallOutcome]:
        """The outcomes in the order of the calls, which are served in parallel as far as there are slots. Returns when
        all have ended. Raises `ResourceFault` for a name that it does not know."""


class Resources(Protocol):
    """The resources of an environment."""

    def call(self, name: str, questions: Sequence[bytes]) -> list[bytes]:
        """The answers in the order of the questions, which are asked in parallel. Returns when all are there.

        Raises `ResourceFault` if the resource does not exist, or a question stays unanswered.
        """

    def kept_as(self, name: str, question: bytes) -> str:
        """The key of the object that keeps the answer to a question. Delete this object to ask again if the answer is
        of no use. It is '' if answers are not kept."""


class ProcessResources:
    """The resources that environments of this process ask.

    Each thread asks the resources that it has bound itself. A thread without resources, such as a helper thread of an
    environment, asks the resources of the only thread that has some. It is refused if several threads have some.
    """

    def __init__(self) -> None:
        self.host: Host | None = None
        """The host for the calls of this process's tasks, or None."""
        self.restart_clock: Callable[[], None] = lambda: None
        """Tells the timer of this process's task that it has only waited for another process so far."""
        # By thread, the innermost last.
        self._bound: dict[int, list[Resources]] = {}
        # The resources of a single thread, in place of the process's.
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
"""The resources of this process."""
