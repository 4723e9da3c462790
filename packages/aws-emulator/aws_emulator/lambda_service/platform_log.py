"""The lines that Lambda itself writes to a function's log, and the captured output of its process.

AWS documentation, "Viewing CloudWatch logs for Lambda functions" and "Understanding the Lambda execution environment
lifecycle" (INIT_REPORT).
"""

import fcntl
import math
import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

TAIL_BYTES = 4096  # API_Invoke, LogResult: "the last 4 KB of the execution log"

# Only this many bytes at the end of an invocation's output are logged.
LONGEST = 4 << 20
_TRIM = 1 << 20


@dataclass(frozen=True)
class ErrorStatus:
    """The reason why an invocation or an initialisation failed."""

    status: Literal["timeout", "error"]
    error_type: str

    def __str__(self) -> str:
        return "Status: timeout" if self.status == "timeout" else f"Status: error\tError Type: {self.error_type}"


def start(request_id: str, version: str) -> str:
    return f"START RequestId: {request_id} Version: {version}"


def end(request_id: str) -> str:
    return f"END RequestId: {request_id}"


def billed_ms(duration_ms: float, init_ms: float | None) -> int:
    """Billed duration in whole milliseconds. Since August 2025 INIT is billed for every kind of function.

    AWS Compute Blog, "AWS Lambda standardizes billing for INIT Phase".
    """
    return math.ceil(duration_ms + (init_ms or 0.0))


def report(
    request_id: str,
    duration_ms: float,
    init_ms: float | None,
    memory_mb: int,
    peak_mb: int,
    error_status: ErrorStatus | None,
) -> str:
    """The REPORT line. It has `init_ms` after a successful cold start, and `error_status` if the platform ended the
    invocation."""
    # Rounded first, so that the printed durations add up to the billed duration.
    duration_ms = round(duration_ms, 2)
    init_ms = None if init_ms is None else round(init_ms, 2)
    fields = [
        f"REPORT RequestId: {request_id}",
        f"Duration: {duration_ms:.2f} ms",
        f"Billed Duration: {billed_ms(duration_ms, init_ms)} ms",
        f"Memory Size: {memory_mb} MB",
        f"Max Memory Used: {peak_mb} MB",
    ]
    if init_ms is not None:
        fields.append(f"Init Duration: {init_ms:.2f} ms")
    fields.append("" if error_status is None else str(error_status))
    return "\t".join(fields)


def init_report(init_ms: float, phase: Literal["init", "invoke"], error_status: ErrorStatus) -> str:
    """The line for a failed initialisation. The REPORT line covers a successful one."""
    return f"INIT_REPORT Init Duration: {init_ms:.2f} ms\tPhase: {phase}\t{error_status}"


def timed_out(request_id: str, timeout_s: float) -> str:
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return f"{moment} {request_id} Task timed out after {timeout_s:.2f} seconds"


def tail(lines: list[str]) -> bytes:
    """The last 4 KB of an invocation's log."""
    return "".join(f"{line}\n" for line in lines).encode()[-TAIL_BYTES:]


class Output:
    """The file that captures a process's output: unlike a pipe it never blocks the writer or loses output."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed with the environment
        self.descriptor = self._file.fileno()
        # Processes append, so the file can be truncated while they write.
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, fcntl.fcntl(self.descriptor, fcntl.F_GETFL) | os.O_APPEND)
        self._taken = 0

    def take(self) -> list[str]:
        """The lines since the last call. A line that awslambdaric broke with carriage returns stays one event."""
        size = os.fstat(self.descriptor).st_size
        if size == self._taken:
            return []
        start = max(self._taken, size - LONGEST)
        text = os.pread(self.descriptor, size - start, start).decode(errors="replace")
        self._taken = size
        if size > _TRIM:
            os.ftruncate(self.descriptor, 0)
            self._taken = 0
        return [line.replace("\r", "\n") for line in text.removesuffix("\n").split("\n")]

    def close(self) -> None:
        self._file.close()
