"""The pool of one resource: its processes, and a lane for each run that asks it."""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

from marless.functions.encoding import to_message_pack
from marless.functions.keys import answer_key
from marless.functions.messages.exchange import Report
from marless.functions.messages.order import Address, Attempt, Order
from marless.functions.resources.attempts import tries
from marless.functions.resources.port import CallAttempt, CallOutcome
from marless.functions.resources.settings import Resource, token_variable
from marless.infra.local.core_account import CoreAccount
from marless.infra.local.dispatch import Capacity
from marless.infra.local.lane import Lane, Pending, SharedPool
from marless.infra.local.resources.elastic import ElasticCores
from marless.infra.local.resources.questions import Question
from marless.infra.local.resources.rate_limit import RateLimit
from marless.infra.local.worker_processes import Worker
from marless.infra.local.workers import Workers, local_workers

_FUNCTION = "resource"
_MODULES = {_FUNCTION: "marless.functions.resources.serving.answering"}
# Programs and services have the time-out themselves, and give better messages. A process that misses it is ended. On a
# busy machine a process needs seconds to start.
_GRACE_S = 10.0
# A service on another machine keeps so much of a core busy here until it is measured.
_WAITING_CORES = 0.01

MakePool = Callable[[Capacity, Mapping[str, str], Path, Workers, CoreAccount, "CallSource"], SharedPool]
"""The class `TaskPool`, which imports this module."""


@dataclass(slots=True)
class PendingCall(Pending):
    """One attempt at a call."""

    question: Question | None = None

    def refused(self, reason: str, **measurements: Any) -> Report:
        """As an attempt that failed: the task that asks fails with the reason."""
        return self.report("crash", detail=reason, **measurements)

    @property
    def output(self) -> str:
        """The place of its kept answer, or ''."""
        return answer_key(self.question.call.key) if self.question and self.question.call.key else ""


class CallLane(Lane):
    """The calls which the tasks of the lane `asker` ask."""

    _ids = count()

    def __init__(self, source: "CallSource", asker: Lane) -> None:
        self.source = source
        # Lanes of several pools may have one name, but no two runs have one folder.
        folder = Path(os.fsdecode(asker.root))
        super().__init__(source.pool, str(folder), folder, asker.weight)
        self.compare_code(lambda code, place: asker.refusal(code, place))
        source.pool.open(self)

    def ask(self, question: Question) -> str:
        """Queue an attempt, and return the id of its report. A later attempt gets the place of the first attempt."""
        id = f"action/{next(self._ids)}/{question.name}"
        address = Address(id=id, run=self.name, round=0, output="", seed=0)
        order = Order(address=address, attempt=question.tries(), timeout_s=_timeout_s(question.resource))
        attempt = Attempt(_FUNCTION, order)
        task = self._task(attempt)
        question.first_task = first = question.first_task or task
        task = replace(task, number=first.number, expected_s=first.expected_s)
        self._add(PendingCall(task, self, attempt, time.monotonic(), question=question))
        return id

    def cancel(self, question: Question) -> None:
        """Drops the call if it has not begun."""
        for pending in [pending for pending in self.pending_tasks() if pending.id == question.attempt_id]:
            self.pop(pending.task)


class CallSource:
    """The calls of a resource, `resource.slots` of them at once, as the tasks of a `pool`.

    Its processes serve all runs, and keep their code's side effects, because all runs have the same code. They begin
    calls no faster than `resource.rate`. If the settings leave the cores of a call open, calls get the cores that speed
    them up most. Calls with kept answers outlive the run that asked.
    """

    def __init__(
        self, name: str, resource: Resource, logs: Path, cores: CoreAccount, make_pool: MakePool, memory_mb: float
    ) -> None:
        self._machine = max(1, math.floor(cores.total))
        self._least, most = (min(each, self._machine) for each in resource.cores)
        self._resource = resource
        self._rate = RateLimit(resource.per_s)
        # The last one of the resource, which asked to be left alone.
        self._refusal: CallOutcome | None = None
        # When it gave its last answer.
        self._answered_at = 0.0
        self.is_down = False
        """Whether it answered no question at all when it was asked last."""
        self._elastic = ElasticCores(self._least, most, resource.slots) if most > self._least else None
        # The cores of the calls that begin now.
        self._plan: deque[int] = deque()
        # Elastic cores already checked for room, and count a core as idle if others use a little of it.
        capacity = Capacity(resource.slots, inf if self._elastic else cores.total)
        grace_s = _timeout_s(resource) if resource.keep else 0.0
        workers = local_workers(resource.slots, _MODULES.values(), logs, memory_mb, most, token_variable(name), grace_s)
        self.pool = make_pool(capacity, _MODULES, logs, workers, cores, self)
        self.pool.presumed_cores = _WAITING_CORES if resource.http else float(self._least)
        cores.is_counted = cores.is_counted or self._elastic is not None

    def refusal(self, patience_s: float) -> CallOutcome | None:
        """Return the outcome of a call that would wait for more than `patience_s` for the resource, or None if it may
        wait."""
        return self._refusal if self._refusal and self._rate.wait_s(time.monotonic()) > patience_s else None

    def learn_down(self, question: Question, outcome: CallOutcome) -> bool:
        """Return True if the outcome of a question shows that the resource answers no question at all."""
        is_down = outcome.is_down and self._answered_at < (question.begun_at or question.asked_at)
        self.is_down = self.is_down or is_down
        return is_down

    def learn(self, cores: int, seconds: float) -> None:
        """A call took so long on so many cores."""
        if self._elastic is not None:
            self._elastic.add(cores, seconds)

    def attempt_ended(self, outcome: CallOutcome) -> None:
        """Begins no other call if the resource asks to be left alone."""
        if not outcome.error:
            self._answered_at, self.is_down = time.monotonic(), False
        if outcome.pause_s:
            self._refusal = CallOutcome(error=outcome.error, attempts=0, pause_s=outcome.pause_s, is_down=True)
            self._rate.pause(time.monotonic() + outcome.pause_s)

    def plan(self, held_cores: float) -> tuple[float, float]:
        """Return how many tasks may begin in addition to `held_cores`, and how many cores the next one lacks."""
        slots = self._open_slots()
        if self._elastic is None:
            return slots, 0.0
        waiting = sum(len(lane.pending_tasks()) for lane in self.pool.lanes)
        busy = self.pool.cores.busy() + held_cores
        self._plan = deque(self._elastic.begin(waiting, slots, self._machine, busy, time.monotonic()))
        return len(self._plan), float(self._least) if waiting and slots and not self._plan else 0.0

    def next_at(self, earliest: float) -> float:
        """Return when a task may begin, at the `earliest`. Both are by the monotonic clock."""
        now = time.monotonic()
        return now + wait_s if (wait_s := self._rate.wait_s(now)) else earliest

    def urgency(self) -> float:
        """See `Sharer`."""
        return min((lane.waits_since() for lane in self.pool.lanes), default=inf)

    def body(self, worker: Worker, pending: Pending) -> bytes:
        """Return the request of the task, which the worker begins."""
        assert isinstance(pending, PendingCall) and pending.question is not None
        cores = self._least
        if self._elastic is not None:
            cores = self._plan.popleft()
            worker.processor.grant(cores)
        self._rate.begin(time.monotonic())
        busy_slots = {other.slot for other in self.pool.workers if other.task is not None and other is not worker}
        worker.slot = next(slot for slot in count() if slot not in busy_slots)
        question = pending.question
        failed, failed_ms = tries(question.all_attempts()), question.run_ms()
        question.begin(worker.slot, cores, pending.queued_ms)
        return to_message_pack(CallAttempt(question.name, self._resource, question.call, cores, failed, failed_ms))

    def _open_slots(self) -> int:
        if self._rate.wait_s(time.monotonic()) or any(lane.reports for lane in self.pool.lanes):
            return 0  # a question with a failed attempt comes before the next one
        free = self._resource.slots - sum(worker.task is not None for worker in self.pool.workers)
        return min(free, 1) if self._resource.rate else free


def _timeout_s(resource: Resource) -> float:
    return resource.timeout_s + (0.0 if resource.serve else _GRACE_S)
