"""An invoker that records measurements for the command line: when sampling began, how much memory
functions took, why tasks fail."""

import re
import time

from marless.coordinator.core.events import decode_answer
from marless.coordinator.drive.ports import Invoker
from marless.functions.messages.exchange import Failed, FailureKind, Report
from marless.functions.messages.order import Attempt

# The first bytes of every encoded `Failed`, with and without spaces. The check saves decoding each answer twice.
_FAILED = re.compile(rb'\{"type": ?"failed"')


class InstrumentedInvoker:
    """Passes everything on. `sampling_since`: the monotonic clock at the first sampling task, None before it.

    `peak_mb`: the most memory that a process held which had served the function, MiB.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker
        self.sampling_since: float | None = None
        self.peak_mb: dict[str, float] = {}
        self.kinds: dict[str, FailureKind] = {}

    def invoke(self, attempt: Attempt) -> None:
        if self.sampling_since is None and "/sample/" in attempt.id:
            self.sampling_since = time.monotonic()
        self._invoker.invoke(attempt)

    def wait(self, timeout_s: float) -> list[Report]:
        """The reports of the wrapped invoker."""
        reports = self._invoker.wait(timeout_s)
        for report in reports:
            self.peak_mb[report.function] = max(report.peak_mb, self.peak_mb.get(report.function, 0.0))
            if _FAILED.match(report.body):
                _, answer = decode_answer(report)
                if isinstance(answer, Failed):
                    self.kinds[report.id] = answer.kind
        return reports

    def close(self) -> None:
        self._invoker.close()
