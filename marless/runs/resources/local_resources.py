"""Resources of this process alone: for commands that play a run's team, notebooks and tests of environments."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Self

from marless.functions.messages.order import ResourceRef
from marless.functions.resources.asking import Asking
from marless.functions.resources.port import RESOURCES, ResourceFault
from marless.functions.resources.settings import Resource, identity
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.resources.blocking_host import BlockingHost


class LocalResources:
    """Serves `resources` in separate processes until it is closed.

    Cached answers are objects in `folder`, by default only as long as it is open. As a context manager it also serves
    the environments of this process.
    """

    def __init__(self, resources: Mapping[str, Resource], folder: Path | None = None) -> None:
        with ExitStack() as opened:
            temporary = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="marless-")))
            objects = folder or temporary / "objects"
            host = BlockingHost(resources, objects, temporary / "resources")
            opened.callback(host.close)
            refs = {
                name: ResourceRef(identity=identity(name, resource), keep=resource.keep)
                for name, resource in resources.items()
            }
            self._asking = Asking(refs, FileStorage(objects), host, "local")
            # One thread asks after the other. The answers of a batch come concurrently.
            self._lock, self._is_open = Lock(), True
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        self._opened.enter_context(RESOURCES.bind(self))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, name: str, questions: Sequence[bytes]) -> list[bytes]:
        """Return the answers in the order of the questions, which are asked concurrently.

        Raises `ResourceFault` if the resource is unknown, closed, or leaves a question unanswered.
        """
        with self._lock:
            if not self._is_open:
                raise ResourceFault(f"resource {name!r}: marless.resources.local was closed")
            return self._asking.call(name, questions)

    def kept_as(self, name: str, question: bytes) -> str:
        """Return the key of the object that caches the answer to a question, or '' without a cache."""
        return self._asking.kept_as(name, question)

    def close(self) -> None:
        """Ends the processes. Idempotent."""
        self._is_open = False
        self._opened.close()
