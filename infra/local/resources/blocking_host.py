"""The host of a process that asks resources without a pool of tasks: it waits itself until they have answered."""

import os
import selectors
import time
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path

from marless.functions.resources.port import CallOutcome, ResourceCall, ResourceFault
from marless.functions.resources.settings import Resource
from marless.infra.local.available_cores import cores
from marless.infra.local.core_account import CoreAccount
from marless.infra.local.dispatch import Capacity
from marless.infra.local.resources.questions import Question
from marless.infra.local.resources.resource_pools import ResourcePools
from marless.infra.local.task_pool import TaskPool


class BlockingHost:
    """Serves `resources` in separate processes, with kept answers as objects below `folder` and output below `logs`. It
    belongs to one thread."""

    def __init__(self, resources: Mapping[str, Resource], folder: Path, logs: Path) -> None:
        self._process = os.getpid()
        self._cores = CoreAccount(cores())
        self._pools = ResourcePools(logs, self._cores, TaskPool)
        # It has no tasks. Its lane names the run of the questions.
        self._pool = TaskPool(Capacity(1, 1), {}, logs, resources=lambda: self._pools)
        self._lane = self._pool.lane("", folder)
        self._lane.serve(resources)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._pools, selectors.EVENT_READ)

    def ask(self, name: str, calls: Sequence[ResourceCall]) -> list[CallOutcome]:
        """See `marless.functions.resources.port.Host`."""
        if os.getpid() != self._process:
            raise ResourceFault(f"resource {name!r}: a process that was forked cannot ask; the one that serves it can")
        if name not in self._lane.resources:
            raise ResourceFault(f"resource {name!r}: it has no settings here")
        outcomes: dict[int, CallOutcome] = {}
        resource = self._lane.resources[name]
        for place, call in enumerate(calls):
            self._pools.begin(Question(self._lane, name, resource, call, partial(outcomes.__setitem__, place)))
        while len(outcomes) < len(calls):
            self._wait()
        return [outcomes[place] for place in range(len(calls))]

    def close(self) -> None:
        """Ends the processes. Processes at calls with kept answers end after these. Idempotent."""
        self._selector.close()
        self._pool.close()
        self._pools.close()

    def _wait(self) -> None:
        due_s = min(self._pools.due_at(), self._cores.dispatch_waiting()) - time.monotonic()
        self._selector.select(max(0.0, due_s) if due_s < inf else None)
        self._pools.listen()
