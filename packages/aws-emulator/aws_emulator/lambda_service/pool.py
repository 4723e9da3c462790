"""Concurrency limits, and the pool of execution environments on this machine, kept warm and bounded.

On AWS only the account's concurrency limits the number of environments. Here every environment is a process on this
machine, so there are at most `most` of them. A call beyond that waits for a free environment, even if its function's
concurrency allows it to run. Its time-out starts when it has an environment. While a function waits for another
function, its environment does not count. So waiting functions never block the functions that they wait for.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager

from aws_emulator.lambda_service.environment_variables import AccountContext
from aws_emulator.lambda_service.environments import Environment
from aws_emulator.lambda_service.invocation_result import throttle
from aws_emulator.lambda_service.versions import FunctionVersion, Registry

# Lambda also replaces environments every few hours, because their credentials expire.
LIFETIME_S = 2 * 3600.0
# A call that can reuse an idle environment runs before older calls, which would have to replace that environment. This
# lasts until the oldest call has waited so long. Otherwise alternating versions would start a process for every call.
PATIENCE_S = 2.0


class Closed(Exception):
    """The pool has been closed."""


class _Call:
    """A waiting call. `ready` is set when it has an environment, may start one, or the pool is closed."""

    def __init__(self, function: FunctionVersion) -> None:
        self.function = function
        self.since = time.monotonic()
        self.ready = threading.Event()
        self.environment: Environment | None = None
        self.replaced: Environment | None = None
        self.granted = False


class Pool:
    """Holds at most `most` environments and ends those idle for `idle_s` seconds."""

    def __init__(self, account: AccountContext, most: int, idle_s: float) -> None:
        self._account, self._most, self._idle_s = account, most, idle_s
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._reserved = 0  # environments that are idle, in use, or about to start
        self._idle: list[tuple[float, Environment]] = []  # oldest first
        self._busy: dict[Environment, bool] = {}  # true: must not be reused
        self._waiting: deque[_Call] = deque()
        self._callers: Counter[str] = Counter()  # functions that wait for others, with the number of their calls
        self._closed = False
        self._keeper = threading.Thread(target=self._keep, name="environments", daemon=True)
        self._keeper.start()

    def take(self, function: FunctionVersion) -> Environment:
        """Returns an environment, warm if possible. Waits while the pool is full. Raises `Closed` or `OSError`."""
        call = _Call(function)
        with self._lock:
            self._waiting.append(call)
            self._serve()
        call.ready.wait()
        if call.replaced is not None:
            call.replaced.close()
        if not call.granted:
            raise Closed
        return call.environment or self._start(function)

    @contextmanager
    def waiting(self, caller: str) -> Iterator[None]:
        """Within the block the invocation `caller` waits for another call that it made. '' means a caller outside
        functions."""
        if not caller:
            yield
            return
        with self._lock:
            self._callers[caller] += 1
            self._serve()
        try:
            yield
        finally:
            with self._lock:
                self._callers -= Counter((caller,))

    def give_back(self, environment: Environment, reusable: bool) -> None:
        """Returns the environment to the pool, which keeps it for reuse or ends it."""
        with self._lock:
            is_retired = self._busy.pop(environment)
            young = time.monotonic() - environment.start_s < LIFETIME_S
            keep = reusable and young and not is_retired and not self._closed and self._reserved <= self._room
            if keep:
                self._idle.append((time.monotonic(), environment))
                self._serve()
        if not keep:
            environment.close()
            self._leave()

    def retire(self, name: str) -> None:
        """Ends a function's idle environments now, and its busy ones when they are given back."""
        with self._lock:
            for environment in self._busy:
                self._busy[environment] |= environment.function.name == name
            environments = [environment for _, environment in self._idle if environment.function.name == name]
            self._idle = [entry for entry in self._idle if entry[1].function.name != name]
        self._end(environments)

    def close(self) -> None:
        """Kills every process. Returns when all have ended and all waiting calls have been refused."""
        with self._lock:
            self._closed = True
            environments, self._idle = [environment for _, environment in self._idle], []
            for environment in self._busy:
                environment.kill()
            while self._waiting:
                self._waiting.popleft().ready.set()
            self._changed.notify_all()
        self._end(environments)
        with self._changed:
            self._changed.wait_for(lambda: self._reserved == 0)
        self._keeper.join()

    def _start(self, function: FunctionVersion) -> Environment:
        try:
            environment = Environment(function, self._account)
        except BaseException:
            self._leave()
            raise
        with self._lock:
            if not self._closed:
                self._busy[environment] = False
                return environment
        environment.close()
        self._leave()
        raise Closed

    def _leave(self) -> None:
        with self._lock:
            self._reserved -= 1
            self._serve()
            self._changed.notify_all()

    def _end(self, environments: list[Environment]) -> None:
        for environment in environments:
            environment.close()
            self._leave()

    def _serve(self) -> None:
        """Grants as many waiting calls as possible. The caller holds the lock."""
        while self._waiting:
            call = self._first()
            if not self._grant(call):
                return
            self._waiting.remove(call)
            call.granted = True
            call.ready.set()

    def _first(self) -> _Call:
        oldest = self._waiting[0]
        if time.monotonic() - oldest.since >= PATIENCE_S:
            return oldest
        warm = [environment.function for _, environment in self._idle]
        return next((call for call in self._waiting if call.function in warm), oldest)

    def _grant(self, call: _Call) -> bool:
        """Grants the most recently used warm environment, else a free slot, else the slot of the longest-idle one."""
        for entry in reversed(self._idle):
            if entry[1].function == call.function:
                self._idle.remove(entry)
                call.environment = entry[1]
                self._busy[entry[1]] = False
                return True
        if self._reserved < self._room:
            self._reserved += 1
            return True
        if self._idle:
            call.replaced = self._idle.pop(0)[1]
            return True
        return False

    @property
    def _room(self) -> int:
        """The number of environments that may exist: environments of functions that wait for others do not count."""
        return self._most + len(self._callers)

    def _keep(self) -> None:
        """Ends environments that were idle for too long. Runs until the pool is closed."""
        while True:
            with self._changed:
                if self._closed:
                    return
                due = self._idle[0][0] + self._idle_s if self._idle else time.monotonic() + self._idle_s
                self._changed.wait(max(0.0, due - time.monotonic()))
                late = time.monotonic() - self._idle_s
                expired_environments = [environment for since, environment in self._idle if since <= late]
                self._idle = [entry for entry in self._idle if entry[0] > late]
            self._end(expired_environments)


class Concurrency:
    """Counts running invocations and enforces the concurrency limits, thread-safe."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    @contextmanager
    def one(self, name: str) -> Iterator[None]:
        """Counts one invocation of the function `name`. Raises `Refused` if its concurrency is used up."""
        with self._lock:
            reservation = self._registry.reservation(name)
            if reservation is None:
                room = self._registry.shared_concurrency() - self._running_without_reservation()
            else:
                room = reservation - self._running[name]
            if room <= 0:
                raise throttle(reservation is not None)
            self._running[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[name] -= 1

    def _running_without_reservation(self) -> int:
        return sum(count for name, count in self._running.items() if self._registry.reservation(name) is None)
