"""The pool of one resource: its processes, and a lane for each run that asks it."""

import math
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from marless.functions.encoding import MessagePackDecoder, Undecodable, to_message_pack
from marless.functions.keys import answer_key
from marless.functions.messages.order import Address, Attempt, Order
from marless.functions.messages.report import Report
from marless.functions.resources.attempts import tries
from marless.functions.resources.port import ActionCall, Outcome
from marless.functions.resources.settings import Resource, token_variable
from marless.infra.local.core_account import CoreAccount
from marless.infra.local.dispatch import Capacity
from marless.infra.local.elastic import ElasticCores
from marless.infra.local.lane import Lane, Pending
from marless.infra.local.pipe_messages import Ended
from marless.infra.local.rate_limit import RateLimit
from marless.infra.local.resources.questions import Question
from marless.infra.local.task_pool import TaskPool
from marless.infra.local.worker_processes import Worker

_FUNCTION = "resource"
_MODULES = {_FUNCTION: "marless.functions.resources.answering"}
# Programs and services have the time-out themselves, and say more of what happened; a process that fails to is ended.
_GRACE_S = 2.0
# A service on another machine keeps so much of a core busy here until it is measured.
_WAITING_CORES = 0.01


@dataclass(slots=True)
class PendingAction(Pending):
    """One attempt at an action."""

    question: Question | None = None

    def refused(self, reason: str, **measurements: Any) -> Report:
        """As an attempt that failed: the task that asks fails with the reason."""
        return self.report("crash", detail=reason, **measurements)

    @property
    def output(self) -> str:
        """Where its answer is kept, '' for nowhere."""
        return answer_key(self.question.action.key) if self.question and self.question.action.key else ""


class _Refusal(msgspec.Struct):
    """The part of an `Outcome` that says whether the resource asks to be left alone."""

    error: str = ""
    pause_s: float = 0.0


_REFUSALS = MessagePackDecoder[_Refusal](_Refusal)


class ActionLane(Lane):
    """The actions of one run."""

    _ids = count()

    def ask(self, question: Question) -> str:
        """Queue an attempt, and return the id of its report. A later attempt gets the place of the first attempt."""
        id = f"action/{next(self._ids)}/{question.name}"
        address = Address(id=id, run=self.name, round=0, output="", seed=0)
        order = Order(address=address, attempt=question.tries(), timeout_s=_timeout_s(question.resource))
        attempt = Attempt(_FUNCTION, order)
        task = self._task(attempt)
        question.first_task = first = question.first_task or task
        task = replace(task, number=first.number, expected_s=first.expected_s)
        self._add(PendingAction(task, self, attempt, time.monotonic(), question=question))
        return id

    def cancel(self, question: Question) -> None:
        """Drops the action if it has not begun."""
        for pending in [pending for pending in self.pending_tasks() if pending.id == question.attempt_id]:
            self.pop(pending.task)


class ResourcePool(TaskPool):
    """Serves the actions of a resource, `resource.slots` of them at once.

    Its processes serve all runs, and keep what its code does to them: that is the same code for all. They begin actions
    no faster than `resource.rate`. Where the settings leave the cores of an action open, they get what speeds them up
    most. Actions whose answers are kept outlive the run that asked.
    """

    def __init__(self, name: str, resource: Resource, logs: Path, cores: CoreAccount, memory_mb: float = 0.0) -> None:
        self._machine = max(1, math.floor(cores.total))
        self._least, most = (min(each, self._machine) for each in resource.cores)
        self._resource = resource
        self._rate = RateLimit(resource.per_s)
        # The last one of the resource, which asked to be left alone.
        self._refusal: Outcome | None = None
        # When it gave its last answer, and whether it was found to be down after that.
        self._answered_at, self._is_down = 0.0, False
        self._elastic = ElasticCores(self._least, most, resource.slots) if most > self._least else None
        # The cores of those that begin now.
        self._plan: deque[int] = deque()
        # Who hands out cores has looked whether there is room, and takes a core of which others keep a little for idle.
        capacity = Capacity(resource.slots, inf if self._elastic else cores.total)
        outlives_s = _timeout_s(resource) if resource.keep else 0.0
        memory_mb *= resource.slots
        super().__init__(capacity, _MODULES, logs, most, memory_mb, cores, outlives_s, token_variable(name))
        cores.is_counted = cores.is_counted or self._elastic is not None
        self.presumed_cores = _WAITING_CORES if resource.http else float(self._least)

    def refusal(self, patience_s: float) -> Outcome | None:
        """Return the outcome of an action that would have to wait for more than `patience_s` until the resource may be
        asked, None if it may wait."""
        return self._refusal if self._refusal and self._rate.wait_s(time.monotonic()) > patience_s else None

    @property
    def is_down(self) -> bool:
        """Whether it answered no question at all when it was asked last."""
        return self._is_down

    def learn_down(self, question: Question, outcome: Outcome) -> bool:
        """Whether the outcome of a question shows that the resource answers no question at all."""
        is_down = outcome.is_down and self._answered_at < (question.begun_at or question.asked_at)
        self._is_down = self._is_down or is_down
        return is_down

    def learn(self, cores: int, seconds: float) -> None:
        """An action took so long on so many cores."""
        if self._elastic is not None:
            self._elastic.add(cores, seconds)

    def start_waiting(self, held_cores: float) -> float:
        """See `Sharer`."""
        if self._elastic is None:
            return super().start_waiting(held_cores)
        waiting, slots = self._waiting(), self._open_slots()
        busy = self.cores.busy() + held_cores
        self._plan = deque(self._elastic.begin(waiting, slots, self._machine, busy, time.monotonic()))
        if waiting and slots and not self._plan:
            return float(self._least)
        return super().start_waiting(held_cores)

    def urgency(self) -> float:
        """See `Sharer`."""
        return min((lane.waits_since() for lane in self.lanes), default=inf)

    def looks_at(self) -> float:
        """See `Sharer`."""
        now = time.monotonic()
        looks_at = super().looks_at()
        return now + wait_s if looks_at < inf and (wait_s := self._rate.wait_s(now)) else looks_at

    def _may_begin(self) -> bool:
        return self._open_slots() > 0 and (self._elastic is None or bool(self._plan))

    def _open_slots(self) -> int:
        """How many actions may begin now."""
        free = self.slots - sum(worker.task is not None for worker in self.workers)
        if self._rate.wait_s(time.monotonic()) or any(lane.reports for lane in self.lanes):
            return 0  # a question whose attempt has failed comes before the next one
        return min(free, 1) if self._resource.rate else free

    def _waiting(self) -> int:
        return sum(len(lane.pending_tasks()) for lane in self.lanes)

    def _most(self) -> int:
        return self.slots

    def _body(self, worker: Worker, pending: Pending) -> bytes:
        assert isinstance(pending, PendingAction) and pending.question is not None
        cores = self._least
        if self._elastic is not None:
            cores = self._plan.popleft()
            worker.processor.grant(cores)
        self._rate.begin(time.monotonic())
        busy_slots = {other.slot for other in self.workers if other.task is not None and other is not worker}
        worker.slot = next(slot for slot in count() if slot not in busy_slots)
        question = pending.question
        failed, failed_ms = tries(question.all_attempts()), question.run_ms()
        question.begin(worker.slot, cores, pending.queued_ms)
        return to_message_pack(ActionCall(question.name, self._resource, question.action, cores, failed, failed_ms))

    def _release(self, worker: Worker, pending: Pending, cores: float, besides_s: float = 0.0) -> None:
        """What an action kept busy beyond its least does not say how much the next one needs."""
        super()._release(worker, pending, cores if self._elastic is None else float(self._least), besides_s)

    def _end(self, worker: Worker, pending: Pending, message: Ended, body: bytes) -> None:
        """See `TaskPool`. Begins no other action if the resource asks to be left alone."""
        with suppress(Undecodable):
            refusal = _REFUSALS.decode(body)
            if not refusal.error:
                self._answered_at, self._is_down = time.monotonic(), False
            if refusal.pause_s:
                self._refusal = Outcome(error=refusal.error, attempts=0, pause_s=refusal.pause_s, is_down=True)
                self._rate.pause(time.monotonic() + refusal.pause_s)
        super()._end(worker, pending, message, body)

    def _restart_clock(self, worker: Worker) -> None:
        worker.clock.start(worker.clock.allowed_s)

    def _look_at_process(self, worker: Worker, pending: Pending, message: Ended) -> None:
        """It serves all lanes, whatever its code has changed."""


def _timeout_s(resource: Resource) -> float:
    """How long a process may be at an attempt."""
    return resource.timeout_s + (0.0 if resource.serve else _GRACE_S)
