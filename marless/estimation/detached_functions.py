"""Functions of a detached run on a virtual clock: each stores its answer and reports before the next turn begins."""

from collections.abc import Container, Sequence

from marless.coordinator.core.events import decode_answer
from marless.coordinator.drive.completion_reports import open_asks
from marless.coordinator.drive.ledger_items import load_state
from marless.coordinator.drive.ports import Ledger
from marless.coordinator.errors import UserError
from marless.estimation.virtual_functions import VirtualClock, VirtualFunctions, work_of
from marless.functions import codec
from marless.functions.completion import completion_report, report_completion
from marless.functions.keys import object_key
from marless.functions.messages.exchange import Done, Report, Request, TaskHeader
from marless.functions.messages.order import Attempt
from marless.functions.storage_port import ObjectHead
from marless.functions.stored_answers import last_object


class CompletionSets:
    """Completion sets in memory."""

    def __init__(self) -> None:
        self._members: dict[str, set[bytes]] = {}

    def add(self, name: str, member: bytes) -> frozenset[bytes]:
        self._members.setdefault(name, set()).add(member)
        return frozenset(self._members[name])

    def read(self, names: Sequence[str]) -> list[frozenset[bytes]]:
        return [frozenset(self._members.get(name, ())) for name in names]

    def keep(self, asks: Container[str]) -> None:
        """Forgets all members of other asks."""
        self._members = {name: members for name, members in self._members.items() if name.split("/")[0] in asks}


class DetachedFunctions:
    """Events for `functions`. `between_s` passes from the end of tasks that are awaited together to the next turn."""

    def __init__(self, functions: VirtualFunctions, ledger: Ledger, clock: VirtualClock, between_s: float) -> None:
        self.sets = CompletionSets()
        self._functions, self._ledger, self._clock, self._between_s = functions, ledger, clock, between_s
        self._requests: dict[str, Request] = {}
        self._pending: list[Attempt] = []
        self._stored: dict[str, ObjectHead] = {}

    def invoke(self, attempt: Attempt) -> None:
        """Keeps the attempt until all are sent."""
        assert isinstance(attempt.request, Request)
        self._requests[attempt.id] = attempt.request
        self._pending.append(attempt)

    def flush(self, patience_s: float) -> list[tuple[str, int, str, bool]]:
        """Starts all requests, rejecting none, and continues until tasks have ended that are awaited together.

        Raises `UserError` for a task that runs into its time-out.
        """
        state = load_state(self._ledger)
        assert state is not None
        pending, self._pending = self._pending, []
        for attempt in pending:
            self._functions.invoke(attempt)
        self.sets.keep(open_asks(state))
        completes_ask = [False]
        while not any(completes_ask) and (reports := self._functions.wait(0.0)):
            completes_ask = [self._complete(report) for report in reports]
        self._clock.now += self._between_s
        return []

    def heads(self, keys: Sequence[str]) -> list[ObjectHead | None]:
        """Heads of the objects that hold answers."""
        return [self._stored.pop(name, None) for name in keys]

    def wait(self, timeout_s: float) -> list[Report]:
        """Events have no replies."""
        return []

    def close(self) -> None:
        """Nothing to release."""

    def _complete(self, report: Report) -> bool:
        request = self._requests.pop(report.id)
        _, answer = decode_answer(report)
        if not isinstance(answer, Done):
            raise UserError(f"{work_of(report.id)} would run into its time-out, after {report.duration_ms / 1000:g} s")
        assert request.report_to is not None
        self._store(request, answer)
        measured_completion = completion_report(answer, report.duration_ms, report.init_ms, 0.0)
        return report_completion(self.sets, request.report_to, measured_completion)

    def _store(self, request: Request, done: Done) -> None:
        kind, id = last_object(request), request.address.id
        assert kind is not None
        others = {name: ref for name, ref in done.objects.items() if name != kind}
        header = TaskHeader(task=id, done=Done(id=id, attempt=0, objects=others, reply=done.reply))
        key, body = object_key(request.address.output, kind), codec.encode({}, header)
        last = done.objects.get(kind) or codec.reference(key, body)
        self._stored[key] = ObjectHead(body, last.sha256, last.size)
