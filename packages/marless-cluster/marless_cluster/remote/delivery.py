"""Compares the objects and the answer of a task on another machine with its request: bits may change there, and on the
way."""

from contextlib import suppress

from marless.functions import codec, keys
from marless.functions.encoding import JsonDecoder, Undecodable
from marless.functions.errors import CorruptObject, NoSuchObject
from marless.functions.messages.exchange import Answer, Done, Request
from marless.functions.messages.message import Ref
from marless.functions.stored_answers import REPLY, unlike
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.lane import Pending
from marless.infra.local.pipe_messages import Damaged

_ANSWERS = JsonDecoder[Answer](Answer)


class Delivery:
    """The objects of one attempt, as `marless.functions.storage_port.Blobs`. They stay if the attempt's answer names
    them as they are. Otherwise the pool drops them."""

    def __init__(self, storage: FileStorage, pending: Pending) -> None:
        self._storage, self._attempt, request = storage, pending.attempt, pending.attempt.request
        self._request = request if isinstance(request, Request) else None
        self._stored: dict[str, Ref] = {}

    def get(self, key: str, size: int | None = None) -> bytes:
        """See `Blobs`."""
        return self._storage.get(key, size)

    def require_own(self, key: str) -> None:
        """Raises `Damaged` for the key of an object that the task does not make."""
        if self._request is not None:
            kinds, output = (*self._request.writes(), keys.ACTIONS, REPLY), self._request.address.output
            if key not in {keys.object_key(output, kind) for kind in kinds}:
                raise Damaged("stored an object that its task does not make")

    def put(self, key: str, body: bytes) -> None:
        """See `Blobs`."""
        self._storage.put(key, body)
        self._stored[key] = codec.reference(key, body)

    def drop(self) -> None:
        """Removes its objects."""
        self._storage.delete(self._stored)
        self._stored.clear()

    def check(self, body: bytes) -> None:
        """Raises `Damaged` unless this answers the task, and its objects are stored with these sizes and hashes."""
        if self._request is None:  # the task's reader reports the fault
            return
        try:
            answer = _ANSWERS.decode(body)
        except Undecodable:
            raise Damaged("answered with what is no answer") from None
        if (answer.id, answer.attempt) != (self._attempt.id, self._attempt.number):
            raise Damaged("answered another task")
        if isinstance(answer, Done):
            if problem := unlike(self._request, answer.reply, answer.objects):
                raise Damaged(f"gave an answer that {problem}")
            self._compare(answer)
        elif answer.kind == "corrupt_object" and all(map(self._is_intact, self._request.reads_from_storage())):
            raise Damaged("cannot read an object that is intact here")

    def _compare(self, answer: Done) -> None:
        """Raises `Damaged` unless the objects are as the answer says."""
        if not answer.inlined.keys() <= {ref.key for ref in answer.objects.values()}:
            raise Damaged("gave an answer with an object that its task does not make")
        for ref in answer.objects.values():
            inlined = answer.inlined.get(ref.key)
            here = self._stored.get(ref.key) if inlined is None else codec.reference(ref.key, inlined)
            if ref != here and (here or not self._is_intact(ref)):  # an earlier attempt may have stored it
                raise Damaged("gave an answer that names an object otherwise than it is")

    def _is_intact(self, ref: Ref) -> bool:
        with suppress(CorruptObject, NoSuchObject):
            codec.fetch(self._storage, ref)
            return True
        return False
