"""Attempts that do not count, because another process or a fault of the machine ended their worker."""

from marless.infra.local.lane import Lane, Pending
from marless.infra.local.worker_processes import Worker, WorkerProcesses

# The message to a run, and the ends of processes that another process killed, or a system without memory.
_KILLED = "other processes killed workers, maybe those of another run; their tasks are tried again alone"
_FROM_OUTSIDE = [f"killed by SIG{name}" for name in ("KILL", "TERM", "INT", "HUP", "QUIT", "USR1", "USR2")]
# A task that lost its machine so often is taken for the cause.
_MOST_LOST = 3


class Retries:
    """If something kills a worker from outside while other lanes have processes, its task is tried again once, without
    processes of other lanes. If a machine is lost, its task is served elsewhere."""

    def __init__(self, workers: WorkerProcesses) -> None:
        self._workers = workers
        # Tasks that are to be served alone.
        self._alone: list[Pending] = []

    def hold_others_back(self) -> bool:
        """Return True if a task is served alone, or waits for that."""
        self._alone = [pending for pending in self._alone if pending in pending.lane.pending_tasks()]
        return bool(self._alone) or any(pending.alone for pending in self._running())

    def next_alone(self) -> tuple[Pending, int | None] | None:
        """Return the task that begins alone now, and the number of its worker (None: a new one). Ends processes of
        other lanes. None if tasks still run, or all tasks may begin together."""
        if not self._alone or self._running():
            return None
        pending = self._alone[0]
        serves = pending.lane.name, pending.task.group
        for worker in self._workers:
            if worker.serves and worker.serves[0] != serves[0]:
                self._workers.remove(worker)
        idle = (worker.number for worker in self._workers if worker.serves in (None, serves) and worker.alive())
        return pending, next(idle, None)

    def again_alone(self, pending: Pending, end: str, has_calls_beside: bool) -> bool:
        """Return True if the task waits again, because of its worker's `end`. `has_calls_beside`: a resource works for
        another lane."""
        if end not in _FROM_OUTSIDE or pending.alone or not (has_calls_beside or self._has_neighbours(pending.lane)):
            return False
        pending.remarks, pending.alone = (_KILLED,), True
        pending.lane.again(pending)
        self._alone.append(pending)
        return True

    def again_elsewhere(self, pending: Pending, end: str) -> bool:
        """Return True if the task waits again, because its machine was lost or is faulty."""
        pending.lost += 1
        if pending.lost > _MOST_LOST:
            return False
        pending.remarks = (f"{end}; its task is served elsewhere",)
        pending.lane.again(pending)
        return True

    def _running(self) -> list[Pending]:
        return [worker.task for worker in self._workers if worker.task is not None]

    def _has_neighbours(self, lane: Lane) -> bool:
        """Return True if a process of another lane may have killed the lane's worker."""
        lanes = (worker.task.lane.name if worker.task else (worker.serves or ("",))[0] for worker in self._workers)
        return any(name not in ("", lane.name) for name in lanes)


def lost_machine(worker: Worker, end: str) -> bool:
    """Return True if a worker's `end` describes its machine or the connection, not its process."""
    return worker.place != "" and not end.startswith(("exit status", "killed by"))
