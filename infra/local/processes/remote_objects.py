"""Objects of a run whose storage is on another machine: the worker asks, the pool answers from its files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from functions.contract import CorruptObject, KeyTaken, NoSuchObject, StorageFault
from functions.storage_port import Blobs
from infra.local.pipe_messages import Get, Put, Stored, frame
from infra.local.resources.upcalls import NoTask, Upcalls

_ERRORS = {error.__name__: error for error in (CorruptObject, KeyTaken, NoSuchObject, StorageFault, ValueError)}


class RemoteObjects:
    """`functions.storage_port.Blobs` of the task that a worker has, by questions to its pool; other runs' are out of
    reach. What it reads first may have come with the task: `offers`, by key. Where it stores `ahead`, `put` raises
    nothing of what `Blobs` says: who hears of such an object and cannot store it has the task done again."""

    def __init__(self, upcalls: Upcalls, offers: dict[str, bytes], ahead: bool) -> None:
        self._upcalls, self._offers, self._ahead = upcalls, offers, ahead

    def get(self, key: str, size: int | None = None) -> bytes:
        """See `Blobs`."""
        body = self._offers.pop(key, None)
        return self._exchange(key, lambda number, token: frame(Get(key, number, size, token))) if body is None else body

    def put(self, key: str, body: bytes) -> None:
        """See `Blobs`."""
        if self._ahead:
            with _no_task(key):
                self._upcalls.tell(lambda number, token: frame(Put(key, number, token, ahead=True), body))
        else:
            self._exchange(key, lambda number, token: frame(Put(key, number, token), body))

    def _exchange(self, key: str, question: Callable[[int, int], bytes]) -> bytes:
        with _no_task(key):
            [(answer, body)] = self._upcalls.exchange([question])
        assert isinstance(answer, Stored)
        if answer.error:
            raise _ERRORS.get(answer.error, StorageFault)(answer.detail)
        return body


@contextmanager
def _no_task(key: str) -> Iterator[None]:
    try:
        yield
    except NoTask as error:
        raise StorageFault(f"object {key!r}: {error}") from None


def is_stored(storage: Blobs, message: Put, body: bytes) -> bool:
    """Stores an object for which its task does not wait; whether that was possible."""
    try:
        storage.put(message.key, body)
    except (KeyTaken, StorageFault, ValueError):
        return False
    return True


def answer_with(storage: Blobs, message: Get | Put, body: bytes) -> bytes:
    """The frame that answers a question for an object, from the storage of the run whose task asks."""
    try:
        if isinstance(message, Get):
            return frame(Stored(message.number, message.token), storage.get(message.key, message.size))
        storage.put(message.key, body)
    except tuple(_ERRORS.values()) as error:
        detail = str(error.args[0]) if error.args else ""
        return frame(Stored(message.number, message.token, type(error).__name__, detail))
    return frame(Stored(message.number, message.token))
