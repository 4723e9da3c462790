"""A pool of warm worker processes that run the functions of one run or of many on this machine."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from marless.functions.encoding import Undecodable
from marless.infra.local.available_cores import cores
from marless.infra.local.lane import Lane, Pending
from marless.infra.local.pipe_messages import Ask
from marless.infra.local.task_pool import TaskPool
from marless.infra.local.worker_processes import Worker

if TYPE_CHECKING:
    from marless.infra.local.resources.resource_pools import ResourcePools


class Pool(TaskPool):
    """Tasks that may ask resources in the middle of their work, see `TaskPool`.

    A task that waits for an answer keeps its slot, but none of the cores, and its clock stands still. Resources have
    processes and slots of their own, over all lanes, and share the cores.
    """

    resources: "ResourcePools | None" = None
    """What serves the questions of its tasks; made for the first lane that has resources."""
    _has_own_resources = False

    def serve(self, lane: Lane) -> None:
        """Lets the lane's tasks ask its `resources` from now on."""
        if self.resources is None:
            from marless.infra.local.resources.resource_pools import ResourcePools

            self._has_own_resources = True
            self.share_resources(ResourcePools(self.logs / "resources", self.cores, self.memory_mb))
        assert self.resources is not None
        self.resources.prewarm(lane)

    def share_resources(self, resources: "ResourcePools") -> None:
        """Tasks ask these, which end with whoever made them. No task may have asked before."""
        self.resources = resources
        self._workers.watch(resources.fileno())

    def news(self) -> list[str]:
        """Lines for the user since the last call: of resources that ask to be left alone."""
        return [] if self.resources is None else self.resources.news()

    def has_room(self) -> bool:
        """Whether another lane finds a worker that it may share."""
        return True

    def limit_cores(self) -> None:
        """For tasks that begin from now on there are no more cores than the machine has, also where slots were taken
        for cores before."""
        self.cores.total = min(self.cores.total, cores())
        self.capacity = replace(self.capacity, cores=self.cores.total)

    def weigh(self, lane: Lane, weight: float) -> None:
        """Changes a lane's share, of resources too."""
        super().weigh(lane, weight)
        if self.resources is not None:
            self.resources.weigh(lane)

    def due_at(self) -> float:
        """When a task's time is over, by the monotonic clock: then `wait` has something to do."""
        due_at = super().due_at()
        return due_at if self.resources is None else min(due_at, self.resources.due_at())

    def drop(self, lane: Lane) -> None:
        """Ends a lane: kills the workers that run its tasks and actions, but for actions whose answers are kept, and
        forgets its reports. Idempotent."""
        if self.resources is not None:
            self.resources.drop(lane)
        super().drop(lane)

    def close(self) -> None:
        """Kills and reaps all workers with their process groups; drops all lanes. A resource's process that is at an
        action whose answer is kept ends after it. Idempotent."""
        super().close()
        if self.resources is not None and self._has_own_resources:
            self.resources.close()

    def _ask(self, worker: Worker, message: Ask, question: bytes) -> None:
        if self.resources is None:
            raise Undecodable("no run of this pool has resources")
        self.resources.ask(self._workers, worker, message, question)

    def _hear_all(self, timeout_s: float) -> None:
        super()._hear_all(timeout_s)
        if self.resources is not None:
            self.resources.listen()

    def _unbilled(self, worker: Worker) -> dict[str, Any]:
        if self.resources is None:
            return {}
        use, times = self.resources.unbilled(worker)
        return {"action_use": use, "actions": times}

    def _release(self, worker: Worker, pending: Pending, cores: float, besides_s: float = 0.0) -> None:
        if self.resources is not None:
            self.resources.forget(worker)
        super()._release(worker, pending, cores, besides_s)

    def _has_neighbours(self, pending: Pending) -> bool:
        asks_beside = self.resources is not None and self.resources.has_others(pending.lane)
        return super()._has_neighbours(pending) or (asks_beside and not pending.alone)
