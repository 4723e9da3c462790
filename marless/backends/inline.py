"""Everything in this process and this thread: `breakpoint()` works in environments and algorithms, and a profiler sees
all of a run. It is slow, and a task that hangs or crashes takes the run with it. Bytes are the same as in `local`."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

from marless.backends.base import FUNCTION_MODULES, Connection
from marless.backends.local import LocalBackend
from marless.coordinator.platform import Platform
from marless.functions.encoding import to_json
from marless.functions.isolation.foreign_files import FOREIGN_FILES
from marless.functions.messages.exchange import Failed, Report
from marless.functions.messages.order import Attempt
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.own_process import peak_mb
from marless.infra.local.sqlite_ledger import LEDGER_FILE, SqliteLedger

if TYPE_CHECKING:
    from marless.functions.resources.port import Host
    from marless.functions.resources.settings import Resource
    from marless.infra.aws.deployment_ref import DeploymentRef

# A task uses the whole process, such as its resources and its state of random numbers, so only one runs at a time.
_PROCESS = RLock()
_NUMBERS = count()


class InlineInvoker:
    """Runs one function in each call of `wait`, with one numerical thread, as workers have it.

    Runs in several threads take turns, task by task. Time-outs are not enforced. Unexpected errors of a function end
    the run with a traceback.
    """

    def __init__(self, blobs: FileStorage) -> None:
        self._blobs = blobs
        FOREIGN_FILES.ignore(str(blobs.root.parent))
        self._host: Host | None = None
        self._queue: deque[Attempt] = deque()
        self._withdrawn: list[Report] = []
        self._reader = f"inline {next(_NUMBERS)}"
        self._refusal: Callable[[Mapping[str, str], str], str] = lambda code, place: ""
        self._threads: ThreadpoolController | None = None

    def invoke(self, attempt: Attempt) -> None:
        """See `Invoker`."""
        self._queue.append(attempt)

    def run(self, attempt: Attempt) -> Report:
        """The report of a function that runs now."""
        began = time.perf_counter()
        handle = import_module(FUNCTION_MODULES[attempt.function]).handle
        import_end = time.perf_counter()
        if self._threads is None:  # once the first module has loaded the numerical libraries
            self._threads = ThreadpoolController()
        with self._threads.limit(limits=1), self._resources(), FOREIGN_FILES.watching():
            answer = handle(attempt.body(), self._blobs)
        if reason := self._refusal(FOREIGN_FILES.news(self._reader), ""):
            self._blobs.delete(self._blobs.list(attempt.output))
            answer = to_json(Failed(id=attempt.id, attempt=attempt.number, kind="request", message=reason, again=False))
        return Report(
            id=attempt.id,
            attempt=attempt.number,
            function=attempt.function,
            outcome="answered",
            body=answer,
            duration_ms=(time.perf_counter() - import_end) * 1000,
            init_ms=(import_end - began) * 1000,
            peak_mb=peak_mb(),
        )

    def serve(self, resources: Mapping[str, "Resource"]) -> None:
        """Answer resource calls of environments in this process too."""
        if resources:
            from marless.functions.resources.serving.in_process import InProcess

            self._host = InProcess(resources, self._blobs)

    def _resources(self) -> AbstractContextManager[None]:
        if self._host is None:
            return nullcontext()
        from marless.functions.resources.port import RESOURCES

        return RESOURCES.hosted(self._host)

    def compare_code(self, refusal: Callable[[Mapping[str, str], str], str]) -> None:
        """See `Lane.compare_code`."""
        self._refusal = refusal
        FOREIGN_FILES.forget()

    def wait(self, timeout_s: float) -> list[Report]:
        """Runs the attempt that was asked for first, and returns its report. Reports of withdrawn attempts come
        before."""
        if self._withdrawn or not self._queue:
            reports, self._withdrawn = self._withdrawn, []
            return reports
        with _PROCESS:
            return [self.run(self._queue.popleft())]

    def withdraw(self) -> None:
        """See `Connection.withdraw`."""
        for attempt in self._queue:
            self._withdrawn.append(
                Report(id=attempt.id, attempt=attempt.number, function=attempt.function, outcome="withdrawn")
            )
        self._queue.clear()

    def close(self) -> None:
        """See `Invoker`."""
        self._queue.clear()


class InlineBackend(LocalBackend):
    """Functions are calls."""

    name = "inline"
    summary = "this process, one task after the other, for debuggers and profilers"

    def open(
        self, folder: Path, workers: int, read_only: bool = False, deployment_ref: "DeploymentRef | None" = None
    ) -> Connection:
        """See `Backend.open`."""
        storage = FileStorage(folder.absolute() / "objects")  # code of a task may change the current folder
        ledger = SqliteLedger(folder / LEDGER_FILE, read_only)
        invoker = InlineInvoker(storage)
        connection = Connection(storage, ledger, invoker, Platform(), serve=invoker.serve, settle=storage.settle)
        connection = replace(connection, compare_code=invoker.compare_code)
        return connection.for_reading() if read_only else connection


BACKEND = InlineBackend()
