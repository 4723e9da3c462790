"""Objects of a run whose storage is on another machine: the worker asks, the pool answers from its files."""

from collections.abc import Callable

from functions.contract import CorruptObject, KeyTaken, NoSuchObject, StorageFault
from functions.storage_port import Blobs
from infra.local.pipe_messages import Get, Put, Stored, frame
from infra.local.resources.upcalls import NoTask, Upcalls

_ERRORS = {error.__name__: error for error in (CorruptObject, KeyTaken, NoSuchObject, StorageFault, ValueError)}


class RemoteObjects:
    """`functions.storage_port.Blobs` of the task that a worker has, by questions to its pool; other runs' are out of
    reach."""

    def __init__(self, upcalls: Upcalls) -> None:
        self._upcalls = upcalls

    def get(self, key: str, size: int | None = None) -> bytes:
        """See `Blobs`."""
        return self._exchange(key, lambda number, token: frame(Get(key, number, size, token)))

    def put(self, key: str, body: bytes) -> None:
        """See `Blobs`."""
        self._exchange(key, lambda number, token: frame(Put(key, number, token), body))

    def _exchange(self, key: str, question: Callable[[int, int], bytes]) -> bytes:
        try:
            [(answer, body)] = self._upcalls.exchange([question])
        except NoTask as error:
            raise StorageFault(f"object {key!r}: {error}") from None
        assert isinstance(answer, Stored)
        if answer.error:
            raise _ERRORS.get(answer.error, StorageFault)(answer.detail)
        return body


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
