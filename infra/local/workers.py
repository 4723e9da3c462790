"""The port `Workers`, for a pool to start its workers and hear of them, and the workers of this machine."""

from collections.abc import Collection, Iterable
from math import inf
from pathlib import Path
from typing import Literal, Protocol

from marless.functions.encoding import Undecodable
from marless.infra.local.lane import Pending
from marless.infra.local.pipe_messages import Get, Put, TaskCall, TaskEnded, frame
from marless.infra.local.processes.process_starters import local_starter, worker_environment
from marless.infra.local.worker_processes import Worker, WorkerProcesses

Failure = Literal["timeout", "crash", "refused"]


class Workers(Protocol):
    """The workers of one pool."""

    processes: WorkerProcesses
    any_processor: bool
    """Whether their processors may round differently than this machine's."""
    use_local_cores: bool
    """Whether their tasks keep cores of this machine busy."""

    @property
    def slots(self) -> int:
        """Return how many tasks they serve at once, 0 while no worker is connected."""

    def free_agents(self) -> Collection[str]:
        """The agents (see `Child.agent`) with processes that may begin a task."""

    def can_start(self) -> bool:
        """Return True if a process can be started now."""

    def order(self, worker: Worker, pending: Pending, body: bytes) -> bytes:
        """Return the frames that make the worker begin the task with the request `body`."""

    def exchange_object(self, worker: Worker, message: Get | Put, body: bytes) -> None:
        """Serve a task that reads or stores an object. Raises `Undecodable` if it has no objects here."""

    def accept(self, worker: Worker, pending: Pending, message: TaskEnded, body: bytes) -> bool:
        """Take the answer of a task. Returns False if the task must be done again. Raises `Undecodable` for a wrong
        answer."""

    def fail(self, worker: Worker, failure: Failure, reason: str) -> bool:
        """Note that a worker gave no answer, a wrong one, or has other code. Returns False if it gets more time."""

    def listen(self, has_waiting: bool) -> None:
        """Note which workers have come or gone. `has_waiting`: tasks wait."""

    def due_at(self) -> float:
        """Return when `listen` is due at the latest, by the monotonic clock."""

    def news(self) -> list[str]:
        """Return lines for the user since the last call."""


class LocalWorkers:
    """At most `slots` processes of this machine at once, which reach the storage themselves."""

    any_processor = False
    use_local_cores = True

    def __init__(self, processes: WorkerProcesses, slots: int) -> None:
        self.processes, self.slots = processes, slots

    def free_agents(self) -> Collection[str]:
        """Their processes have no agent."""
        return ("",)

    def can_start(self) -> bool:
        """Always."""
        return True

    def order(self, worker: Worker, pending: Pending, body: bytes) -> bytes:
        """See `Workers`."""
        return frame(TaskCall(pending.task.module, pending.lane.root, token=worker.token), body)

    def exchange_object(self, worker: Worker, message: Get | Put, body: bytes) -> None:
        """Raises `Undecodable`."""
        raise Undecodable("workers of this machine have the storage")

    def accept(self, worker: Worker, pending: Pending, message: TaskEnded, body: bytes) -> bool:
        """Every answer counts."""
        return True

    def fail(self, worker: Worker, failure: Failure, reason: str) -> bool:
        """No worker gets more time."""
        return True

    def listen(self, has_waiting: bool) -> None:
        """None comes or goes by itself."""

    def due_at(self) -> float:
        """Never."""
        return inf

    def news(self) -> list[str]:
        """None."""
        return []


def local_workers(
    slots: int,
    modules: Iterable[str],
    logs: Path,
    memory_mb: float = 0.0,
    threads: int = 1,
    token: str = "",
    shutdown_grace_s: float = 0.0,
) -> LocalWorkers:
    """Workers that import the `modules`, with so many `threads` for numerical libraries in each.

    Each may allocate `memory_mb` (0: without limit). Of the tokens of services they have the one in the variable
    `token`. With `shutdown_grace_s` a task that has begun has so many seconds to end after its lane and its pool.
    """
    starter = local_starter(worker_environment(threads, token), modules, logs / "zygote.log", shutdown_grace_s)
    return LocalWorkers(WorkerProcesses(starter, logs, memory_mb, shutdown_grace_s > 0), slots)
