"""The worker processes of a pool: their starts, their pipes and their ends."""

import selectors
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from marless.infra.local.dispatch import WorkerSlot
from marless.infra.local.lane import Pending
from marless.infra.local.pipe_messages import TaskCall, frame
from marless.infra.local.processes.process_starters import Starter
from marless.infra.local.worker_handle import WorkerProcess

Worker = WorkerProcess[Pending]


class WorkerProcesses:
    """They are started by `starter`, and each may allocate `memory_mb` (0: without limit). They print into
    ``<logs>/<n>.log``. With `finish_tasks` a task that has begun ends without its lane and its pool."""

    def __init__(self, starter: Starter, logs: Path, memory_mb: float = 0.0, finish_tasks: bool = False) -> None:
        self._starter, self._logs, self.memory_mb, self.finish_tasks = starter, logs, memory_mb, finish_tasks
        self._workers: list[Worker] = []
        self._started = count(1)
        self._selector = selectors.DefaultSelector()

    def __iter__(self) -> Iterator[Worker]:
        """A copy, so that they may end meanwhile."""
        return iter(list(self._workers))

    def __len__(self) -> int:
        return len(self._workers)

    def __contains__(self, worker: object) -> bool:
        return worker in self._workers

    def numbered(self, number: int) -> Worker:
        """That of the number."""
        return next(worker for worker in self._workers if worker.number == number)

    def fileno(self) -> int:
        """Readable when one of them has something to say."""
        return self._selector.fileno()

    def slots(self, load_s_per_byte: float, agents: Collection[str]) -> list[WorkerSlot]:
        """As the dispatcher sees them, without idle processes of other agents. For `load_s_per_byte` see `Capacity`."""
        workers = (worker for worker in self._workers if worker.task is not None or worker.agent in agents)
        return [_slot(worker, load_s_per_byte) for worker in workers]

    def start(self, most: int) -> Worker:
        """Start a worker. At `most` workers, the longest idle one ends, if possible not the last of a group.

        Raises `OSError` when no process can be started.
        """
        idle = [worker for worker in self._workers if worker.task is None]
        if idle and len(self._workers) >= most:
            alike = Counter(worker.serves for worker in self._workers)
            self.remove(min(idle, key=lambda worker: (alike[worker.serves] == 1, worker.idle_since)))
        number = next(self._started)
        # Other users of this machine have no need to read environments' output.
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        worker = Worker(number, self._starter, self._logs / f"{number}.log", self.memory_mb)
        self._selector.register(worker.replies, selectors.EVENT_READ, worker)
        self._selector.register(worker.log.descriptor, selectors.EVENT_READ, worker)
        self._workers.append(worker)
        return worker

    def prewarm(self, module: str, most: int, may_start: bool) -> None:
        """Imports the module ahead of its first task, in an idle worker, or in a new one (see `start`) if it
        `may_start`."""
        idle = [worker for worker in self if worker.task is None and not worker.serves]
        free = [worker for worker in idle if not worker.warming and worker.alive()]
        if any(worker.has(module) for worker in free) or not (free or may_start):
            return
        try:
            worker = free[0] if free else self.start(most)
        except OSError:  # the first task will report the same error
            return
        worker.warming = module
        self.send(worker, frame(TaskCall(module, warm=True, token=worker.token)))

    def watch(self, descriptor: int) -> None:
        """`fileno` is readable when the descriptor is, too."""
        self._selector.register(descriptor, selectors.EVENT_READ)

    def send(self, worker: Worker, data: bytes) -> None:
        """Does not wait until the worker reads it."""
        worker.outbox += data
        self._flush(worker)

    def exchange(self, timeout_s: float) -> Iterator[Worker]:
        """Writes outgoing messages and reads logs. Yields the workers that have answered, or have ended, the first of
        them after at most `timeout_s`."""
        for key, events in self._selector.select(timeout_s):
            worker: Worker | None = key.data
            if worker is None or worker not in self._workers:
                continue
            if key.fd == worker.log.descriptor:
                if not worker.log.take():  # a task has closed its standard output
                    self._selector.unregister(key.fd)
            elif events & selectors.EVENT_WRITE:
                self._flush(worker)
                worker.wrote()
            else:
                yield worker

    def remove(self, worker: Worker) -> str:
        """Kills a worker with its process group and forgets it. Returns how the process ended."""
        self._workers.remove(worker)
        self._selector.unregister(worker.replies)
        with suppress(KeyError):  # it has closed its standard output
            self._selector.unregister(worker.log.descriptor)
        if worker.blocked:
            self._selector.unregister(worker.requests)
        return worker.kill()

    def close(self) -> None:
        """Kills and reaps all workers, except those with tasks if `finish_tasks`. Idempotent."""
        for worker in self:
            if self.finish_tasks and worker.task is not None:
                self._workers.remove(worker)
                worker.leave()
            else:
                self.remove(worker)
        self._starter.close()
        self._selector.close()

    def _flush(self, worker: Worker) -> None:
        is_blocked = worker.flush()
        if is_blocked and not worker.blocked:
            self._selector.register(worker.requests, selectors.EVENT_WRITE, worker)
        elif worker.blocked and not is_blocked:
            self._selector.unregister(worker.requests)
        worker.blocked = is_blocked


def _slot(worker: Worker, load_s_per_byte: float) -> WorkerSlot:
    pending = worker.task
    importing = bool(worker.warming)
    modules = worker.modules | {worker.warming} if importing else worker.modules
    held_hashes = worker.at_hand.keys()
    if pending is None:
        return WorkerSlot(worker.number, modules, importing, held_hashes, worker.idle_since, 0.0, worker.serves)
    reads = pending.task.reads
    free_at = worker.clock.since + pending.task.expected_s + load_s_per_byte * worker.missing(reads)
    return WorkerSlot(worker.number, modules, importing, held_hashes | reads.keys(), None, free_at, worker.serves)
