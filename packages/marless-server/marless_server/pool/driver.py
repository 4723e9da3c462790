"""The loop that trains the runs of a server side by side on one pool."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from marless.backends.local import LocalBackend
from marless.coordinator.errors import one_line
from marless.infra.local.task_pool import TaskPool
from marless.runs.train_and_resume import with_limits
from marless.runs.upkeep.disk_space import size_of
from marless.signals import Signals
from marless.studies.pooled_run import PooledRun
from marless.studies.study_run import StudyRun
from marless_server.admission import stored_config
from marless_server.pool.archives import ArchiveClaims
from marless_server.pool.turns import Turn, over_quota, turns
from marless_server.store.owners import Owner, Owners
from marless_server.store.runs import Figures, RunRow, Runs, Usage

# The loop waits so long for a report before it looks at the queue. It writes the usage of runs so often.
_PATIENCE_S, _RECORD_S = 0.25, 1.0


@dataclass(frozen=True)
class BusySlot:
    """A slot that serves a task: the task's owner, run and work, and the seconds so far."""

    owner: str
    run: str
    work: str
    seconds: float


@dataclass
class Board:
    """The state that the loop shares with the pages.

    Attributes:
        slots: worker processes of the pool
        most: runs that train at once
        gpus: GPUs of the pool
        busy: the slots that serve tasks
        ends: whether the server ends after the tasks in flight
        news: set when the queue has changed
    """

    slots: int
    most: int
    gpus: int = 0
    busy: tuple[BusySlot, ...] = ()
    ends: bool = False
    news: Event = field(default_factory=Event)


class Queue:
    """The runs that wait and train, with owners and usage as of now."""

    def __init__(self, runs: Runs, owners: Owners, board: Board) -> None:
        self.runs, self.owners, self._board = runs, owners, board

    def turns(self, rows: Sequence[RunRow] | None = None) -> list[Turn]:
        """Return the runs that wait, in their order, with reasons. `rows` replaces all open runs."""
        rows = self.runs.open() if rows is None else rows
        return turns(rows, self.owners.all(), self.runs.used_today(), self._board.most)


class _Work:
    """A run that trains, and how much of it is in the accounts."""

    def __init__(self, row: RunRow, run: StudyRun, pooled: PooledRun, signals: Signals) -> None:
        self.owner, self.run, self.pooled, self.signals = row.owner, run, pooled, signals
        self.dollars, self.served_s, self.busy_s = row.dollars, row.served_s, 0.0

    def stop(self) -> None:
        """Stop after the tasks in flight."""
        self.signals.stop()
        self.pooled.lane.withdraw()


class PoolDriver:
    """Trains the runs of the `queue` in folders below `root`, until `stopping`."""

    def __init__(
        self, queue: Queue, board: Board, root: Path, pool: TaskPool, claims: ArchiveClaims, stopping: Signals
    ) -> None:
        self._queue, self._runs, self._board, self._root = queue, queue.runs, board, root
        self._pool, self._claims, self._stopping, self._backend = pool, claims, stopping, LocalBackend()
        self._works: dict[str, _Work] = {}
        self._ends: dict[str, _Work] = {}
        self._record_at = 0.0

    def drive(self) -> None:
        """Train until a signal stops the server. Raises `StorageFault` if the server's file cannot be written."""
        try:
            while self._works or not self._stopping.received:
                self._look()
                for work in [work for work in self._works.values() if work.pooled.ready]:
                    self._advance(work)
                self._close([work for work in self._ends.values() if work.pooled.written])
                self._show()
                if not any(work.pooled.ready for work in self._works.values()):
                    self._pool.wait(_PATIENCE_S)
        finally:
            for work in (*self._works.values(), *self._ends.values()):
                work.pooled.close()

    def _look(self) -> None:
        """Stop and begin runs as owners and quotas want it."""
        is_due = time.monotonic() >= self._record_at
        if self._stopping.received:
            self._board.ends = True
        if is_due:
            for work in self._works.values():
                self._record(work)
            self._record_at = time.monotonic() + _RECORD_S
        if is_due or self._board.news.is_set() or self._board.ends:
            self._board.news.clear()
            self._stop_some()
            if not self._board.ends:
                self._begin_some()

    def _stop_some(self) -> None:
        owners, usage = self._queue.owners.all(), self._runs.used_today()
        wishes = {row.id: row.wish for row in self._runs.open()}
        for name, work in self._works.items():
            if self._board.ends or wishes.get(name) or over_quota(owners[work.owner], usage):
                work.stop()
        self._share(owners)

    def _begin_some(self) -> None:
        for turn in self._queue.turns():
            # The run of an archive that is being written waits for the next look.
            if turn.reason or turn.run.id in self._ends or not self._claims.take(turn.run.id):
                continue
            if row := self._runs.begin(turn.run.id):
                self._begin(row)
            else:
                self._claims.give(turn.run.id)

    def _begin(self, row: RunRow) -> None:
        limits = row.limit_settings
        try:
            config = with_limits(stored_config(row), limits)
        except Exception as error:  # of a package that is not there any more, for example
            self._claims.give(row.id)
            self._runs.end(row.id, "failed", one_line(error))
            return
        run = StudyRun(row.id, "", row.seed, row.owner, config, limits=limits)
        run.round, run.score, run.dollars, run.seconds = row.round, row.score, row.dollars, row.seconds
        root, signals = run_root(self._root, row.id), Signals()
        lane = self._pool.lane(row.id, root / row.id / "objects")
        work = _Work(row, run, PooledRun(run, root, lane, self._backend, signals), signals)
        work.busy_s = self._pool.busy_s.get(row.id, 0.0)
        self._works[row.id] = work
        self._share(self._queue.owners.all())
        if not work.pooled.begin(self._pool.width(lane)):
            self._end(work)

    def _advance(self, work: _Work) -> None:
        cap = work.run.config.stop.dollars
        if not work.pooled.advance(self._pool.width(work.pooled.lane), cap, None):
            self._end(work)

    def _end(self, work: _Work) -> None:
        run = work.run
        work.pooled.end()
        for remark in work.pooled.remarks:
            self._runs.remark(run.name, remark)
        for logger, problem in work.pooled.unlogged.items():
            self._runs.remark(run.name, f"log.to {logger}: {problem}")
        self._record(work)
        del self._works[run.name]
        self._ends[run.name] = work
        self._share(self._queue.owners.all())
        outcome = run.status if run.status in ("finished", "failed") else "interrupted"
        self._runs.end(run.name, outcome, run.reason)
        self._board.news.set()

    def _close(self, works: list[_Work]) -> None:
        for work in works:
            work.pooled.close()
            del self._ends[work.run.name]
            self._runs.measure(work.run.name, size_of(run_root(self._root, work.run.name)))
            self._claims.give(work.run.name)

    def _record(self, work: _Work) -> None:
        run, busy_s = work.run, self._pool.busy_s.get(work.run.name, 0.0)
        dollars = max(work.dollars, work.pooled.spent())
        used = Usage(owner=work.owner, slot_seconds=busy_s - work.busy_s, dollars=dollars - work.dollars)
        work.served_s, work.busy_s, work.dollars = work.served_s + used.slot_seconds, busy_s, dollars
        figures = Figures(
            round=run.round, score=run.score, dollars=dollars, seconds=run.seconds, served_s=work.served_s
        )
        self._runs.record(run.name, figures, used)

    def _share(self, owners: Mapping[str, Owner]) -> None:
        counts = Counter(work.owner for work in self._works.values())
        for work in self._works.values():
            owner = owners[work.owner]
            self._pool.weigh(work.pooled.lane, owner.weight / max(1, counts[owner.name]))

    def _show(self) -> None:
        owners = {name: work.owner for name, work in self._works.items()}
        pending = [(worker.task, worker.clock.elapsed_s()) for worker in self._pool.workers if worker.task]
        self._board.busy = tuple(
            BusySlot(owners.get(task.lane.name, ""), task.lane.name, task.work, seconds) for task, seconds in pending
        )


def run_root(root: Path, run: str) -> Path:
    """Return the folder that holds the folder of a run. The record of the run's code is next to it."""
    return root / run / "runs"
