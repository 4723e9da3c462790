"""The pools of resources, for questions in the middle of tasks, over all runs of one pool or of several."""

import selectors
import time
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from marless.functions.encoding import MessagePackDecoder, Undecodable
from marless.functions.messages.exchange import Report
from marless.functions.messages.usage import CallUse, sums_by_name
from marless.functions.resources.attempts import after, unasked
from marless.functions.resources.call_meter import MOST_TIMES
from marless.functions.resources.port import CallOutcome, ResourceCall
from marless.functions.resources.settings import Resource
from marless.functions.system_errors import explain
from marless.infra.local.core_account import CoreAccount
from marless.infra.local.lane import Lane
from marless.infra.local.pipe_messages import Ask
from marless.infra.local.resources.questions import Question
from marless.infra.local.resources.resource_pool import CallLane, CallSource, MakePool
from marless.infra.local.resources.upcalls import answer_frame
from marless.infra.local.worker_processes import Worker, WorkerProcesses

_DECODER = MessagePackDecoder[CallOutcome](CallOutcome)
# The user is told of a pause that is as long.
_TOLD_S = 5.0


class ResourcePools:
    """A `CallSource` with its pool for each resource, made at its first question. There is one for each name and each
    of its settings, which come from the asking lane.

    The processes' output goes to ``<logs>/<name>/<n>.log``. Each may allocate `memory_mb` (0: without limit). They use
    the same `cores` as the pools with the asking tasks.
    """

    def __init__(self, logs: Path, cores: CoreAccount, make_pool: MakePool, memory_mb: float = 0.0) -> None:
        self._logs, self._cores, self._make_pool, self._memory_mb = logs, cores, make_pool, memory_mb
        self._sources: dict[tuple[str, Resource], CallSource] = {}
        # The call lanes of a lane with asking tasks.
        self._lanes: dict[Lane, dict[tuple[str, Resource], CallLane]] = {}
        # The questions with an attempt that waits or is being served, by id, and the questions of each task, by token.
        self._questions: dict[str, Question] = {}
        self._asked: dict[int, list[Question]] = {}
        # Attempts that have failed at questions of tasks that have ended, where answers are kept: by lane and answer.
        self._failed: dict[tuple[Lane, str], list[CallOutcome]] = {}
        # Lines for the user, and for each resource until when nothing else is said of it.
        self._news: list[str] = []
        self._told_until: dict[str, float] = {}
        self._selector = selectors.DefaultSelector()

    def fileno(self) -> int:
        """Readable when a process of a resource has something to say."""
        return self._selector.fileno()

    def news(self) -> list[str]:
        """Lines for the user since the last call: of resources that ask to be left alone."""
        lines, self._news = self._news, []
        return lines

    def due_at(self) -> float:
        """Return when `listen` is due without a message, by the monotonic clock."""
        return min((calls.pool.due_at() for calls in self._sources.values()), default=inf)

    def prewarm(self, lane: Lane) -> None:
        """Starts a process for each of the lane's resources ahead of its first call."""
        for name, resource in lane.resources.items():
            self._lane(lane, name, resource).prewarm("resource")

    def ask(self, workers: WorkerProcesses, worker: Worker, message: Ask, body: bytes) -> None:
        """The task of a worker asks. Raises `Undecodable` for an impossible question."""
        pending = worker.task
        computed = worker.computes
        if pending is None or not worker.ask(message.number):
            raise Undecodable("a task wrote this")
        if computed:
            self._cores.change(-worker.processor.expected)
        tell = partial(self._tell, workers, worker, worker.token, message.number)
        if (resource := pending.lane.resources.get(message.resource)) is None:
            tell(CallOutcome(error="the run has no such resource"))
            return
        call = ResourceCall(body, message.key if resource.keep else "", pending.id)
        failed = self._failed.pop((pending.lane, call.key), ())
        question = Question(pending.lane, message.resource, resource, call, tell, failed_before=failed)
        self._asked.setdefault(worker.token, []).append(question)
        self.begin(question)

    def begin(self, question: Question) -> None:
        """Has a question answered, or told that no process can be started for it. Does not wait."""
        try:
            question.is_last = self._lane_of(question).source.is_down
            self._begin(question)
        except OSError as error:
            question.end(CallOutcome(error=f"no process can be started for it: {explain(error)}"))
        self._cores.dispatch()

    def listen(self) -> None:
        """Takes in the messages of resources' processes, and tells the waiting tasks."""
        ready = {key.data for key, _ in self._selector.select(0)}
        now = time.monotonic()
        for source in self._sources.values():
            if source in ready or source.pool.due_at() <= now:
                source.pool.hear()
        while attempts := self._take():
            for report, outcome in attempts:
                if (question := self._questions.pop(report.id, None)) is not None:
                    self._attempt_ended(question, outcome, report.duration_ms)
            self._cores.dispatch()
        if any(lane.is_withdrawn for lane in self._lanes):
            self._refuse_waiting()

    def unbilled(self, worker: Worker) -> dict[str, Any]:
        """The fields of the report with the worker's use of resources, and its times, if it gives no answer. Kept
        answers are not counted: they are, once, for the attempt that gives one."""
        questions = [question for question in self._asked.get(worker.token, ()) if question.begun_at]
        use: dict[str, CallUse] = {}
        for question in questions:
            if not question.resource.keep:
                use = sums_by_name(use, {question.name: CallUse(count=question.tries(), ms=ceil(question.run_ms()))})
        times = tuple(question.time(worker.clock.since) for question in questions[:MOST_TIMES])
        return {"call_use": use, "call_times": times}

    def forget(self, worker: Worker) -> None:
        """The worker's task has ended: its running calls continue, and its waiting calls do not begin."""
        for question in self._asked.pop(worker.token, ()):
            question.tell = None
            if not question.is_served and self._questions.pop(question.attempt_id, None) is not None:
                self._lane_of(question).cancel(question)
                self._remember_failed(question)

    def weigh(self, lane: Lane) -> None:
        """The lane's share has changed."""
        for calls in self._lanes.get(lane, {}).values():
            calls.source.pool.weigh(calls, lane.weight)

    def drop(self, lane: Lane) -> None:
        """The lane has ended: its calls with kept answers continue, and the processes at the others are killed."""
        for calls in self._lanes.pop(lane, {}).values():
            calls.close()
        self._questions = {id: one for id, one in self._questions.items() if one.asker is not lane}
        self._asked = {token: each for token, each in self._asked.items() if each[0].asker is not lane}
        self._failed = {key: attempts for key, attempts in self._failed.items() if key[0] is not lane}

    def has_others(self, lane: Lane) -> bool:
        """Return True if a resource works for another lane."""
        its_lanes = self._lanes.get(lane, {}).values()
        workers = (worker for source in self._sources.values() for worker in source.pool.workers)
        return any(worker.task is not None and worker.task.lane not in its_lanes for worker in workers)

    def close(self) -> None:
        """Kills and reaps all processes. Processes at calls with kept answers end after these. Idempotent."""
        for source in self._sources.values():
            source.pool.close()
        self._sources.clear()
        self._lanes.clear()
        self._questions.clear()
        self._selector.close()

    def _begin(self, question: Question) -> None:
        """Queues an attempt, unless the resource asks to be left alone for too long. Raises `OSError`."""
        lane = self._lane_of(question)
        if (refusal := lane.source.refusal(question.patience_s())) is not None:
            self._end(question, refusal)
            return
        question.attempt_id = lane.ask(question)
        self._questions[question.attempt_id] = question

    def _attempt_ended(self, question: Question, outcome: CallOutcome, duration_ms: float) -> None:
        question.attempt_ended(outcome)
        if outcome.pause_s:
            self._note_pause(question.name, outcome)
            self._refuse_waiting()
        if not question.is_over:
            self._begin(question)
            return
        if outcome.paid and outcome.run_ms <= duration_ms and not outcome.error:  # it was not kept before
            self._lane_of(question).source.learn(question.cores, outcome.run_ms / 1000)
        if outcome.error and question.tell is None:
            self._remember_failed(question)
        self._end(question)

    def _end(self, question: Question, *refusal: CallOutcome) -> None:
        """End a question. If the resource is down, no other question of its task is asked."""
        outcome = after([*question.all_attempts(), *refusal])
        question.end(outcome)
        lane = self._lane_of(question)
        if not lane.source.learn_down(question, outcome):
            return
        for other in [one for one in self._questions.values() if question.is_beside(one)]:
            other.is_last = True
            if not other.is_served and self._questions.pop(other.attempt_id, None) is not None:
                lane.cancel(other)
                final = after([*other.all_attempts(), unasked(outcome)])
                other.end(replace(final, error=outcome.error))

    def _note_pause(self, name: str, outcome: CallOutcome) -> None:
        """Notes a line about a resource that asks to be left alone, unless one was noted of this pause."""
        now = time.monotonic()
        if outcome.pause_s >= _TOLD_S and now >= self._told_until.get(name, 0.0):
            self._told_until[name] = now + outcome.pause_s
            self._news.append(f"resource {name!r}: {outcome.error}")

    def _refuse_waiting(self) -> None:
        """End the questions that wait for resources which ask to be left alone, if that takes too long for them."""
        for question in [one for one in self._questions.values() if not one.is_served]:
            lane = self._lane_of(question)
            is_asked = question.attempt_id in self._questions
            if is_asked and lane.source.refusal(question.patience_s()) is not None:
                lane.cancel(question)
                del self._questions[question.attempt_id]
                self._begin(question)

    def _remember_failed(self, question: Question) -> None:
        """Nobody is told of the question's attempts, which are paid by who asks it next."""
        if question.call.key and (attempts := question.all_attempts()):
            self._failed[question.asker, question.call.key] = attempts

    def _tell(self, workers: WorkerProcesses, worker: Worker, token: int, number: int, outcome: CallOutcome) -> None:
        """Tells the task of the token, which continues when it waits for nothing else."""
        if worker in workers and worker.token == token:
            workers.send(worker, answer_frame(number, token, outcome))
            worker.answer(number)
            if worker.computes:
                self._cores.change(worker.processor.expected)

    def _lane_of(self, question: Question) -> CallLane:
        return self._lane(question.asker, question.name, question.resource)

    def _lane(self, asker: Lane, name: str, resource: Resource) -> CallLane:
        lanes = self._lanes.setdefault(asker, {})
        key = name, resource
        if key not in lanes:
            if (source := self._sources.get(key)) is None:
                like = sum(name == other for other, _ in self._sources)
                logs = self._logs / (f"{name}-{like + 1}" if like else name)
                source = self._sources[key] = CallSource(
                    name, resource, logs, self._cores, self._make_pool, self._memory_mb
                )
                self._selector.register(source.pool.fileno(), selectors.EVENT_READ, source)
            lanes[key] = CallLane(source, asker)
        return lanes[key]

    def _take(self) -> list[tuple[Report, CallOutcome]]:
        attempts = list[tuple[Report, CallOutcome]]()
        for lane in (lane for lanes in self._lanes.values() for lane in lanes.values()):
            for report in lane.reports:
                attempts.append((report, _outcome(report)))
                lane.source.attempt_ended(attempts[-1][1])
            lane.reports.clear()
        return attempts


def _outcome(report: Report) -> CallOutcome:
    try:
        return _DECODER.decode(report.body) if report.outcome == "answered" else _failed(report, report.detail)
    except Undecodable as error:
        return _failed(report, str(error))


def _failed(report: Report, cause: str) -> CallOutcome:
    return CallOutcome(error=cause, run_ms=report.duration_ms)
