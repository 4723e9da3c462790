"""Who may run at the same time: the account's limit and the functions' reservations.

AWS documentation, "Understanding Lambda function scaling" and "Configuring reserved concurrency for a function": a
reservation belongs to its function alone and is its limit as well; the other functions share what is left. Requests per
second, and how fast concurrency may grow, are not limited here.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from infra.emulation.lambda_service.refusals import throttled
from infra.emulation.lambda_service.versions import Registry


class Concurrency:
    """Counts invocations under way; safe for any number of threads."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()

    @contextmanager
    def one(self, name: str) -> Iterator[None]:
        """One invocation of the function `name`; raises `Refused` at once where there is no room for it."""
        with self._lock:
            reserved = self._registry.reserved(name)
            if reserved is None:
                room = self._registry.unreserved() - self._unreserved()
            else:
                room = reserved - self._running[name]
            if room <= 0:
                raise throttled(reserved is not None)
            self._running[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._running[name] -= 1

    def _unreserved(self) -> int:
        return sum(count for name, count in self._running.items() if self._registry.reserved(name) is None)
