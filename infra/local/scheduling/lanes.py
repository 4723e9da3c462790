"""The open lanes of a pool, which share it by their weights."""

from collections.abc import Iterator

from marless.infra.local.dispatch import CORES, Capacity, Choice, FairShares, Need, Slot, Task, choose, dominant_share
from marless.infra.local.lane import Lane, Pending


class Lanes:
    """Chooses the lane of the next task, and accounts for the time of each lane."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._weights = 0.0
        self._shares = FairShares()
        self.usual_cores: dict[str, float] = {}
        """How many cores the last task of each kind kept busy: what is expected of a run that has run none."""
        self.busy_s: dict[str, float] = {}
        """Seconds for which slots ran tasks, by lane, start-up included."""

    def __iter__(self) -> Iterator[Lane]:
        """A copy, so that they may close meanwhile."""
        return iter(list(self._lanes.values()))

    def __getitem__(self, name: str) -> Lane:
        return self._lanes[name]

    def __len__(self) -> int:
        return len(self._lanes)

    def open(self, lane: Lane) -> None:
        """Lets a lane take part; raises `ValueError` when there is one of its name."""
        if lane.name in self._lanes:
            raise ValueError(f"the pool has a lane {lane.name} already")
        self._lanes[lane.name] = lane
        self._weights += lane.weight
        self._shares.open(lane.name, lane.weight)

    def close(self, lane: Lane) -> bool:
        """The lane takes part no more; False if it did not before."""
        if self._lanes.pop(lane.name, None) is None:
            return False
        self._weights = sum(other.weight for other in self._lanes.values())
        self._shares.close(lane.name)
        return True

    def weigh(self, lane: Lane, weight: float) -> None:
        """Changes a lane's share."""
        self._weights += weight - lane.weight
        lane.weight = weight
        self._shares.weigh(lane.name, weight)

    def width(self, lane: Lane, slots: int) -> int:
        """How many slots are the lane's own while all lanes have tasks; at least one."""
        return max(1, round(slots * lane.weight / self._weights))

    def waits(self, lane: Lane) -> None:
        """A task comes to the lane's empty queue."""
        if lane.name in self._lanes:
            self._shares.waits(lane.name)

    def have_waiting(self) -> bool:
        """Whether a task waits."""
        return any(lane.waiting for lane in self._lanes.values())

    def startable(self, slots: int) -> list[Lane]:
        """The lanes with tasks that may have one more slot: beyond their own only for tasks that are known to end soon,
        because a slot that was lent comes back only at the end of its task."""
        lanes = (lane for lane in self._lanes.values() if lane.waiting)
        return [lane for lane in lanes if len(lane.running) < self.width(lane, slots) or lane.may_borrow()]

    def choose(
        self, lanes: list[Lane], slots: list[Slot], in_use: Need, capacity: Capacity, now: float, may_start: bool
    ) -> tuple[Choice | None, float]:
        """The next task of one of the `lanes`; if there is none, also how many cores the first task lacks.

        `may_start`: a process may start for a slot that is not the lane's own, see `_first`.
        """
        queues = {
            lane.name: self._first(lane, slots, may_start or len(lane.running) < self.width(lane, capacity.slots))
            for lane in lanes
        }
        alike = {lane.name: lane.waiting.alike() for lane in lanes}
        choice = choose(self._shares, queues, slots, in_use, capacity, now, alike)
        if choice is not None or sum(slot.idle_since is None for slot in slots) >= capacity.slots:
            return choice, 0.0
        return None, min((queue[0].need[CORES] for queue in queues.values() if queue), default=0.0)

    def _first(self, lane: Lane, slots: list[Slot], may_start: bool) -> list[Task]:
        """The next tasks of the lane. Unless a process `may_start`, a free process must be able to serve them."""
        tasks = lane.waiting.first()
        if may_start:
            return tasks
        free = [slot for slot in slots if slot.idle_since is not None]
        return [task for task in tasks if any(slot.suits(lane.name, task) for slot in free)]

    def task_started(self, lane: Lane, task: Task, capacity: Capacity) -> None:
        """A task of the lane begins."""
        self._shares.started(lane.name, task.expected_s * dominant_share(task, capacity))

    def task_ended(self, pending: Pending, seconds: float, loading_s: float, cores: float, capacity: Capacity) -> None:
        """A task has ended after `seconds`. Loading its objects took `loading_s`. It kept so many `cores` busy."""
        lane, task, kind = pending.lane, pending.task, pending.kind
        lane.measured(pending, seconds - loading_s, cores)
        if kind not in self.usual_cores:
            for other in self._lanes.values():
                other.expect(kind, cores)
        self.usual_cores[kind] = cores
        self.busy_s[lane.name] = self.busy_s.get(lane.name, 0.0) + seconds
        self.charge(pending, seconds - task.expected_s, capacity)

    def charge(self, pending: Pending, seconds: float, capacity: Capacity) -> None:
        """The task has cost its lane so much more than was expected (negative: less)."""
        self._shares.correct(pending.lane.name, seconds * dominant_share(pending.task, capacity))
