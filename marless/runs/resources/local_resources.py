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
    """Serves `resources` in processes of their own, until it is closed; kept answers are objects below `folder`, by
    default for as long as it is open.

    As a context manager it also is what environments of this process ask.
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
            # One thread asks after the other; the answers of a batch come side by side.
            self._lock, self._is_open = Lock(), True
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        self._opened.enter_context(RESOURCES.bind(self))
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, name: str, questions: Sequence[bytes]) -> list[bytes]:
        """The answers in the order of the questions, which are asked side by side; returns when all are there.

        Raises `ResourceFault` when there is no such resource, one of the questions has no answer, or it is closed.
        """
        with self._lock:
            if not self._is_open:
                raise ResourceFault(f"resource {name!r}: marless.resources.local was closed")
            return self._asking.call(name, questions)

    def kept_as(self, name: str, question: bytes) -> str:
        """The key of the object that keeps the answer to a question; '' where answers are not kept."""
        return self._asking.kept_as(name, question)

    def close(self) -> None:
        """Ends the processes. Idempotent."""
        self._is_open = False
        self._opened.close()
