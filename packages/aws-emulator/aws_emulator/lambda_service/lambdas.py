"""The Lambda service of the emulated account: functions, synchronous and asynchronous invocations, limits."""

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from aws_emulator.encoding import Undecodable, from_json
from aws_emulator.lambda_service.async_events import Event, EventQueue
from aws_emulator.lambda_service.environment_variables import AccountContext
from aws_emulator.lambda_service.environments import Execution, Invocation
from aws_emulator.lambda_service.invocation_result import (
    Refused,
    not_json,
    recursive,
    throttle,
    too_large,
    unavailable,
)
from aws_emulator.lambda_service.platform_log import tail
from aws_emulator.lambda_service.pool import Closed, Concurrency, Pool
from aws_emulator.lambda_service.recursion import caller, follow
from aws_emulator.lambda_service.versions import FunctionVersion, Registry

# "Lambda quotas": 6 MB for synchronous requests, 1 MB for asynchronous ones.
LONGEST_REQUEST = 6 << 20
LONGEST_EVENT = 1 << 20
# "Adding a dead-letter queue": the attribute ErrorMessage holds the first 1 KB.
LONGEST_MESSAGE = 1024

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """The service's answer: HTTP status 200, 202 or 204. With 200 the function's answer and the end of its log."""

    status: int
    request_id: str
    version: str
    trace: str
    payload: bytes = b""
    is_error: bool = False
    log_tail: bytes = b""


@dataclass(frozen=True)
class DeadLetter:
    """An abandoned event: the queue's ARN, the event, and the attributes that Lambda adds to the message.

    AWS documentation, "Adding a dead-letter queue": RequestID, ErrorCode (a number), ErrorMessage.
    """

    arn: str
    body: bytes
    request_id: str
    error_code: int
    error_message: str


Log = Callable[[str, str, list[str]], None]
Bury = Callable[[DeadLetter], None]


class _Error(msgspec.Struct, rename="camel"):
    error_message: str = ""


class Lambdas:
    """All functions of one region of the account, thread-safe.

    `log(group, stream, lines)` receives each invocation's log before the caller gets the answer, in the order of the
    stream. `bury` receives abandoned events. Both are called from many threads. `concurrency` is the account's quota:
    calls beyond it are throttled. At most `most_processes` environments exist at once, a limit of this machine and not
    of the account: further calls wait. Environments idle for `idle_s` seconds are ended.
    """

    def __init__(
        self,
        account: AccountContext,
        log: Log,
        bury: Bury,
        concurrency: int = 1000,
        most_processes: int = 8,
        idle_s: float = 300.0,
    ) -> None:
        self._log, self._bury = log, bury
        self._limit = concurrency
        self._registry = Registry(account.region, account.number, concurrency)
        self._concurrency = Concurrency(self._registry)
        self._pool = Pool(account, most_processes, idle_s)
        # Events alone can use up a small quota, and one more is throttled. Of a large quota this machine uses a
        # fraction: further threads would only wait for a process.
        small = concurrency <= 2 * most_processes
        self._queue = EventQueue(self._attempt, concurrency + 1 if small else most_processes)
        self._closing = False

    def publish(self, function: FunctionVersion) -> None:
        """Publishes the version. `live` and the bare name resolve to it. Raises `ValueError` if AWS would refuse it."""
        self._registry.publish(function)

    def reserve(self, name: str, concurrency: int | None) -> None:
        """Sets or removes the function's reserved concurrency. Raises `ValueError` if AWS would refuse it."""
        self._registry.reserve(name, concurrency)

    def remove(self, name: str) -> None:
        """Removes a function with all its versions and environments. Its queued events are dropped."""
        self._registry.remove(name)
        self._pool.retire(name)

    def remove_version(self, name: str, version: str) -> None:
        """Removes a version, which is then not found any more."""
        self._registry.remove_version(name, version)

    def check(self, name: str, qualifier: str | None = None) -> Result:
        """A dry run. Raises `Refused` if there is no such function."""
        target = self._registry.resolve(name, qualifier)
        return Result(204, str(uuid.uuid4()), target.function.version, follow(None, target.unqualified_arn).header)

    def invoke(self, name: str, qualifier: str | None, payload: bytes, trace: str | None = None) -> Result:
        """Runs the function and returns its answer, which may be a function error. Raises `Refused`.

        `name` is a name or an ARN with an optional qualifier. `trace` is the caller's X-Amzn-Trace-Id.
        """
        event = self._accept(name, qualifier, payload, trace, LONGEST_REQUEST, "RequestResponse")
        if event.endless:
            raise recursive()
        with self._pool.waiting(caller(trace)):
            execution = self._execute(event)
        return Result(
            200,
            event.invocation.request_id,
            event.target.function.version,
            event.invocation.trace,
            execution.payload,
            execution.is_error,
            tail(execution.lines),
        )

    def submit(self, name: str, qualifier: str | None, payload: bytes, trace: str | None = None) -> Result:
        """Queues the event for the version that the name currently resolves to. Raises `Refused`."""
        event = self._accept(name, qualifier, payload, trace, LONGEST_EVENT, "Event")
        self._queue.put(event)
        return Result(202, event.invocation.request_id, event.target.function.version, event.invocation.trace)

    def account_settings(self) -> dict[str, dict[str, int]]:
        """The members of a GetAccountSettings answer. Code sizes are the documented quotas."""
        limit = {
            "TotalCodeSize": 80_530_636_800,
            "CodeSizeUnzipped": 262_144_000,
            "CodeSizeZipped": 52_428_800,
            "ConcurrentExecutions": self._limit,
            "UnreservedConcurrentExecutions": self._registry.shared_concurrency(),
        }
        return {"AccountLimit": limit, "AccountUsage": {"TotalCodeSize": 0, "FunctionCount": self._registry.count()}}

    def close(self) -> None:
        """Kills every environment and drops queued events. No function runs when it returns."""
        self._closing = True
        self._queue.stop()
        self._pool.close()
        self._queue.join()

    def _accept(
        self, name: str, qualifier: str | None, payload: bytes, trace: str | None, limit: int, kind: str
    ) -> Event:
        target = self._registry.resolve(name, qualifier)
        if len(payload) > limit:
            raise too_large(len(payload), limit, kind)
        payload = payload or b"{}"
        try:
            from_json(payload, msgspec.Raw)
        except Undecodable as error:
            raise not_json(str(error)) from None
        trail = follow(trace, target.unqualified_arn)
        invocation = Invocation(str(uuid.uuid4()), payload, target.arn, trail.header)
        return Event(target, invocation, trail.endless and not target.function.recursion_allowed)

    def _execute(self, event: Event) -> Execution:
        function = event.target.function
        with self._concurrency.one(function.name):
            try:
                environment = self._pool.take(function)
            except Closed:
                raise unavailable("the emulated account is being closed") from None
            except Exception as error:
                _log.exception("no environment for %s", function.name)
                raise unavailable(f"cannot start an environment: {error}") from error
            reusable = False
            try:
                execution = environment.run(event.invocation)
                reusable = execution.reusable
                self._write(function, environment.log_stream, execution.lines)
            except OSError as error:
                raise unavailable(f"an environment failed: {error}") from error
            finally:
                self._pool.give_back(environment, reusable)
            return execution

    def _write(self, function: FunctionVersion, stream: str, lines: list[str]) -> None:
        try:
            self._log(function.log_group, stream, lines)
        except Exception:  # as on Lambda, an unwritable log does not fail the invocation
            _log.exception("cannot write the log of %s", function.name)

    def _attempt(self, event: Event) -> float | None:
        """Attempts an asynchronous event once. See `EventQueue`."""
        if not self._registry.current(event.target.function):
            return None
        try:
            if event.endless:
                raise recursive()
            if event.left_s() <= 0:
                raise event.refusal or throttle(of_function=True)
            execution = self._execute(event)
        except Refused as refusal:
            return self._after_refusal(event, refusal)
        again_s = event.count_failure() if execution.is_error else None
        if execution.is_error and again_s is None:
            self._give_up(event, 200, _message(execution.payload))
        return again_s

    def _after_refusal(self, event: Event, refusal: Refused) -> float | None:
        if not event.endless and event.left_s() > 0:
            return event.count_throttle(refusal)
        self._give_up(event, refusal.status, refusal.message)
        return None

    def _give_up(self, event: Event, code: int, message: str) -> None:
        arn = event.target.function.dead_letter_arn
        if arn is None or self._closing:
            return
        invocation = event.invocation
        message = message.encode()[:LONGEST_MESSAGE].decode(errors="ignore")
        try:
            self._bury(DeadLetter(arn, invocation.payload, invocation.request_id, code, message))
        except Exception:
            _log.exception("event %s is lost: the dead-letter queue did not take it", invocation.request_id)


def _message(payload: bytes) -> str:
    """The error message of the function's error document."""
    try:
        return from_json(payload, _Error).error_message
    except Undecodable:
        return ""
