"""Objects that travel inside messages and not through storage, while the run needs them."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from marless.coordinator.drive.ports import Storage
from marless.functions.errors import KeyTaken
from marless.functions.messages.exchange import Done
from marless.functions.messages.message import Ref
from marless.functions.messages.order import Order


class InlinedObjects:
    """The process that drives the run holds them. A checkpoint stores the objects that a resume needs."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}
        self._stored_keys: set[str] = set()

    def attach(self, request: Order) -> Order:
        """Return the request with the inlined objects that it reads."""
        if not self._bodies:
            return request
        bodies = {ref.key: self._bodies[ref.key] for ref in request.reads() if ref.key in self._bodies}
        return msgspec.structs.replace(request, inlined=bodies)

    def detach(self, answer: Done) -> Done:
        """The answer without its objects, which are kept."""
        if not answer.inlined:
            return answer
        self._bodies |= answer.inlined
        return msgspec.structs.replace(answer, inlined={})

    def store(self, refs: Iterable[Ref], storage: Storage) -> Iterator[int]:
        """Store the objects that are not stored yet, and yield the bytes of each object after it is stored."""
        for ref in refs:
            if ref.key not in self._bodies or ref.key in self._stored_keys:
                continue
            body = self._bodies[ref.key]
            # A lost attempt from before objects travelled inside messages may have stored the same bytes.
            with suppress(KeyTaken):
                storage.put(ref.key, body)
            self._stored_keys.add(ref.key)
            yield len(body)

    def drop(self, keys: Iterable[str]) -> None:
        """Forgets the objects under these keys."""
        for key in keys:
            self._bodies.pop(key, None)
            self._stored_keys.discard(key)
