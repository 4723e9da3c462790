"""Execution environments: one awslambdaric process each, started cold, reused warm, killed at a time-out.

The phases and their log lines follow the AWS documentation, "Understanding the Lambda execution environment lifecycle".
Not emulated: freezing between invocations, and CPU in proportion to memory. A process that uses more than the
function's memory is killed at the next look at it: every 50 ms, and at its answer. If the system does not report
memory, for example on macOS, the process lives on.
"""

import os
import shutil
import tempfile
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Literal

from aws_emulator.lambda_service import invocation_result, platform_log
from aws_emulator.lambda_service.environment_variables import AccountContext, variables
from aws_emulator.lambda_service.invocation_result import InvocationResult
from aws_emulator.lambda_service.platform_log import Output
from aws_emulator.lambda_service.runtime import LONGEST_BODY, PREFIX, RuntimeApi, RuntimeProcess, RuntimeRequest
from aws_emulator.lambda_service.versions import FunctionVersion

INIT_LIMIT_S = 10.0
# On AWS each environment has separate processors. Too many starts at once would exceed the limit here.
_STARTS = BoundedSemaphore(2 * (os.cpu_count() or 1))


@dataclass(frozen=True)
class Invocation:
    """One event for a function."""

    request_id: str
    payload: bytes
    arn: str
    trace: str


@dataclass(frozen=True)
class Execution:
    """The outcome of an invocation: the answer, its log lines, and whether the environment can be reused."""

    payload: bytes
    is_error: bool
    lines: list[str]
    reusable: bool


class Environment:
    """An environment of one version. Only the owning thread calls `run` and `close`. Any thread may call `kill`."""

    def __init__(self, function: FunctionVersion, account: AccountContext) -> None:
        self.function = function
        self.log_stream = f"{datetime.now(UTC):%Y/%m/%d}/[{function.version}]{uuid.uuid4().hex}"
        self.start_s = time.monotonic()
        self._lock, self._doomed = Lock(), False
        self._fresh, self._peak_mb = True, 0
        self._next: RuntimeRequest | None = None
        self._home = Path(tempfile.mkdtemp(prefix=f"{function.name}-"))
        self._output, self._api = Output(), RuntimeApi()
        _STARTS.acquire()
        self._starts = True
        try:
            self._variables = variables(function, account, self.log_stream, self._home, self._api.address)
            self._process = self._start()
        except BaseException:
            self._release()
            raise

    def run(self, invocation: Invocation) -> Execution:
        """Sends the event to the process. Returns when the process has answered, died, or timed out."""
        function, request_id = self.function, invocation.request_id
        log = self._output.take()
        if not self._fresh and not self._warm(request_id):
            self._restart()  # the process ended after its last answer, so it is replaced silently
        init_ms, ready = self._initialise(request_id, log) if self._fresh else (None, True)
        log.append(platform_log.start(request_id, function.version))
        began = time.monotonic()
        until = began + function.timeout_s
        result = None if ready else self._initialise_again(request_id, until, log)
        result = result or self._converse(invocation, until)
        duration_ms = 1000 * min(time.monotonic() - began, function.timeout_s)
        self._measure()
        log += [*self._output.take(), *result.log, platform_log.end(request_id)]
        log.append(
            platform_log.report(
                request_id,
                duration_ms,
                init_ms,
                function.memory_mb,
                min(self._peak_mb, function.memory_mb),
                result.error_status,
            )
        )
        return Execution(result.payload, result.is_error, log, reusable=result.error_status is None)

    def kill(self) -> None:
        """Kill the process group for good. A thread in `run` then returns."""
        with self._lock:
            if not self._doomed:
                self._doomed = True
                self._process.kill()

    def close(self) -> None:
        """Ends the process and releases its resources."""
        with self._lock:
            self._doomed = True
            self._process.close()
        self._release()

    def _let_others_start(self) -> None:
        if self._starts:
            self._starts = False
            _STARTS.release()

    def _release(self) -> None:
        self._let_others_start()
        self._api.close()
        self._output.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def _start(self) -> RuntimeProcess:
        function = self.function
        return RuntimeProcess(function.handler, function.code, self._variables, self._output.descriptor)

    def _restart(self) -> None:
        """Replaces the process, unless the environment was killed."""
        with self._lock:
            self._process.kill()
            self._api.hang_up()
            self._next, self._fresh, self._peak_mb = None, True, 0
            if not self._doomed:
                self._process.close()
                self._process = self._start()

    def _warm(self, request_id: str) -> bool:
        """Return whether the process lives and has requested its next event."""
        result = self._await_next(request_id, time.monotonic() + INIT_LIMIT_S)
        return result is None and self._process.alive()

    def _initialise(self, request_id: str, log: list[str]) -> tuple[float | None, bool]:
        """Waits for the INIT phase. Returns its duration in ms (None if it failed), and whether it succeeded."""
        result = self._await_next(request_id, self._process.started + INIT_LIMIT_S)
        return self._log_initialisation(result, "init", log), result is None

    def _initialise_again(self, request_id: str, until: float, log: list[str]) -> InvocationResult | None:
        """Repeats a failed INIT within the invocation, as Lambda does. The function's time-out includes it."""
        self._restart()
        result = self._await_next(request_id, until)
        self._log_initialisation(result, "invoke", log)
        return result

    def _log_initialisation(
        self, result: InvocationResult | None, phase: Literal["init", "invoke"], log: list[str]
    ) -> float | None:
        self._fresh = False
        self._let_others_start()
        init_ms = (time.monotonic() - self._process.started) * 1000
        self._measure()
        log += self._output.take()
        if result is None or result.error_status is None:
            return init_ms
        log.append(platform_log.init_report(init_ms, phase, result.error_status))
        return None

    def _await_next(self, request_id: str, until: float) -> InvocationResult | None:
        """Waits until the process requests an event. Returns `None` then, or the result if it failed instead."""
        while self._next is None:
            pending = self._receive(request_id, until)
            if isinstance(pending, InvocationResult):
                return pending
            if pending.request.path == f"{PREFIX}invocation/next":
                self._next = pending
            elif pending.request.path == f"{PREFIX}init/error":
                self._api.answer(pending, HTTPStatus.ACCEPTED)
                return invocation_result.init_failed(pending.request.body)
            else:
                self._api.answer(pending, HTTPStatus.NOT_FOUND)
        return None

    def _converse(self, invocation: Invocation, until: float) -> InvocationResult:
        """Sends the event and waits for its answer."""
        pending, self._next = self._next, None
        assert pending is not None
        left_s = until - time.monotonic()
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(int((time.time() + left_s) * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": invocation.arn,
            "Lambda-Runtime-Trace-Id": invocation.trace,
        }
        self._api.answer(pending, HTTPStatus.OK, invocation.payload, headers, left_s)
        answers = f"{PREFIX}invocation/{invocation.request_id}/"
        while True:
            answer = self._receive(invocation.request_id, until)
            if isinstance(answer, InvocationResult):
                return answer
            if answer.request.path in (f"{answers}response", f"{answers}error"):
                return self._result_of(answer)
            self._api.answer(answer, HTTPStatus.BAD_REQUEST)

    def _result_of(self, answer: RuntimeRequest) -> InvocationResult:
        if answer.request.oversize:
            self._api.answer(answer, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return invocation_result.oversize(LONGEST_BODY)
        self._api.answer(answer, HTTPStatus.ACCEPTED, b'{"status":"OK"}')
        return InvocationResult(answer.request.body, is_error=answer.request.path.endswith("/error"))

    def _receive(self, request_id: str, until: float) -> RuntimeRequest | InvocationResult:
        """The next request of the process, or the result if it ended or timed out."""
        try:
            pending = self._api.receive(until, self._lives)
        except TimeoutError:
            return invocation_result.timed_out(request_id, self.function.timeout_s)
        if pending is not None and self._within_memory():
            return pending
        return invocation_result.process_exit(request_id, self._process.end(), self._out_of_memory)

    def _lives(self) -> bool:
        return self._within_memory() and self._process.alive()

    def _within_memory(self) -> bool:
        """Return whether the process has used no more than the function's memory. Otherwise kills it."""
        self._measure()
        if self._out_of_memory:
            self._process.kill()
        return not self._out_of_memory

    @property
    def _out_of_memory(self) -> bool:
        return self._peak_mb > self.function.memory_mb

    def _measure(self) -> None:
        self._peak_mb = max(self._peak_mb, self._process.used_mb(self.function.memory_mb))
