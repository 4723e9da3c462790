"""Drives all runs of a campaign in one process."""

import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from marless.backends.base import FUNCTION_MODULES, WorkerListener
from marless.backends.local import LocalBackend
from marless.coordinator.governor.shared_budget import Purse, least
from marless.infra.local.separate_pools import SeparatePools
from marless.infra.local.task_pool import TaskPool
from marless.runs import run_log
from marless.signals import Signals
from marless.studies.campaign import Campaign, CampaignView
from marless.studies.owners import lane_weight
from marless.studies.pooled_run import PooledRun
from marless.studies.study_run import OVER, StudyRun

# How long to wait for a report before looking whether the user wants to stop.
_PATIENCE_S = 0.25


class SideBySide:
    """Drives the runs of a campaign, `at_once` of them active, until all are over or `stopping`."""

    def __init__(
        self, campaign: Campaign, pool: TaskPool | SeparatePools, stopping: Signals, at_once: int, view: CampaignView
    ) -> None:
        self._campaign, self._pool, self._stopping, self._most = campaign, pool, stopping, at_once
        # Failed loggers and remarks that the view has shown, because it shows them once.
        self._view, self._unlogged, self._remarks = view, set[str](), set[str]()
        self._backend = LocalBackend()
        self._root: Path = campaign.folder / "runs"
        self._at_work: dict[str, PooledRun] = {}
        # Ended runs with unfinished loggers, by name.
        self._being_logged: dict[str, PooledRun] = {}
        self._purse, self._purses = campaign.purses()
        self._waiting: list[StudyRun] = []
        for run in campaign.runs:
            self._enlist(run)

    def drive(self) -> None:
        """Raises `StorageFault` when the study's own files cannot be written."""
        try:
            self._decide()
            self._fill()
            while self._at_work:
                for work in [work for work in self._at_work.values() if work.ready]:
                    self._advance(work)
                self._fill()
                self._close(work for work in self._being_logged.values() if work.written)
                for line in self._pool.news():
                    self._view.tell(line)
                self._view.look(self._campaign)
                if self._stopping.received:
                    for work in self._at_work.values():
                        work.lane.withdraw()
                if not any(work.ready for work in self._at_work.values()):
                    self._pool.wait(_PATIENCE_S)
            self._close(self._being_logged.values(), run_log.PATIENCE_S)
        finally:
            for work in (*self._at_work.values(), *self._being_logged.values()):
                work.close()

    def _enlist(self, run: StudyRun) -> None:
        if run.status not in OVER:
            self._waiting.append(run)
        for purse in self._purses_of(run):
            purse.runs += run.status not in OVER
            if run.status in OVER:
                purse.spent[run.name] = run.dollars

    def _fill(self) -> None:
        while len(self._at_work) < self._most and self._pool.has_room() and not self._stopping.received:
            if startable := [run for run in self._waiting if run.status != "paused"]:
                self._begin(startable[0])
                continue
            if not (new_runs := self._campaign.ask()):
                return
            self._campaign.save()
            for run in new_runs:
                self._enlist(run)
                if run.status in OVER:  # it cannot begin
                    self._view.show_run(self._campaign, run)

    def _begin(self, run: StudyRun) -> None:
        self._waiting.remove(run)
        if (before := self._being_logged.get(run.name)) is not None:
            self._close([before], run_log.PATIENCE_S)
        for purse in self._purses_of(run):
            purse.begin(run.name, run.dollars)
        lane = self._pool.lane(run.name, self._root / run.name / "objects")
        work = PooledRun(run, self._root, lane, self._backend, self._stopping)
        self._at_work[run.name] = work
        self._share()
        if not work.begin(self._pool.width(lane)):
            self._end_run(work)

    def _advance(self, work: PooledRun) -> None:
        run = work.run
        cap = least(purse.allowance(run.name) for purse in self._purses_of(run))
        goes_on = work.advance(self._pool.width(work.lane), cap, self._campaign.pause_at(run))
        self._look_at(work)
        if not goes_on:
            self._end_run(work)

    def _end_run(self, work: PooledRun) -> None:
        run = work.run
        work.end()
        self._being_logged[run.name] = work
        for other in self._campaign.runs:
            other.served_s = self._pool.busy_s.get(other.name, 0.0)
        del self._at_work[run.name]
        for purse in self._purses_of(run):
            purse.end(run.name, run.dollars, will_return=run.status == "paused")
        if run.status == "paused":
            self._waiting.append(run)
        self._share()
        self._campaign.run_ended(run)
        self._view.show_run(self._campaign, run)
        self._decide()

    def _close(self, ended_runs: Iterable[PooledRun], patience_s: float = 0.0) -> None:
        until = time.monotonic() + patience_s
        for work in list(ended_runs):
            work.close(max(0.0, until - time.monotonic()))
            self._look_at(work)
            del self._being_logged[work.run.name]

    def _look_at(self, work: PooledRun) -> None:
        """Show remarks and failed loggers once: a problem of one run is mostly a problem of all."""
        for remark in work.remarks:
            if remark not in self._remarks:
                self._remarks.add(remark)
                self._view.remark(work.run, remark)
        work.run.unlogged = list(work.unlogged)
        for logger, problem in work.unlogged.items():
            if logger not in self._unlogged:
                self._unlogged.add(logger)
                self._view.show_log_failure(work.run, logger, problem)

    def _decide(self) -> None:
        """Compare settings with waiting runs. Runs of stopped settings are over."""
        for decision in self._campaign.halve():
            self._campaign.save()
            self._view.show_halving(decision)
        for other in [other for other in self._waiting if other.status == "stopped"]:
            self._waiting.remove(other)
            for purse in self._purses_of(other):
                purse.runs -= 1
            self._view.show_run(self._campaign, other)

    def _share(self) -> None:
        runs = Counter(work.run.owner for work in self._at_work.values())
        for work in self._at_work.values():
            owner = work.run.owner
            self._pool.weigh(work.lane, lane_weight(self._campaign.owner(owner), runs[owner]))

    def _purses_of(self, run: StudyRun) -> list[Purse]:
        return [self._purse, *filter(None, [self._purses.get(run.owner)])]


def drive_separately(
    campaign: Campaign, stopping: Signals, at_once: int, view: CampaignView, listener: WorkerListener | None = None
) -> None:
    """Drive the campaign with a separate worker for each run, so that runs never wait for each other. With a `listener`
    the workers have dialled in. Raises `StorageFault` as `SideBySide.drive` does."""
    with _separate_pools(campaign.folder / "resources", listener) as pools:
        SideBySide(campaign, pools, stopping, at_once, view).drive()


def _separate_pools(logs: Path, listener: WorkerListener | None) -> SeparatePools:
    if listener is None:
        return SeparatePools(FUNCTION_MODULES, logs)
    return listener.separate_pools(FUNCTION_MODULES, logs)
