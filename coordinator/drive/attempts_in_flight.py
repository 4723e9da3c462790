"""The attempts that a process waits for, and when the next decision is due."""

from collections.abc import Collection

from marless.coordinator.core.state import WorkItem


class AttemptsInFlight:
    """The attempts that functions have not answered yet. Empty if no process waits for answers."""

    def __init__(self) -> None:
        # By work and number of the attempt, with the time when it was asked for.
        self._asked: dict[tuple[str, int], tuple[WorkItem, float]] = {}
        # `Dispatch.awaited`: the number of the set by work, and how many of its works have no answer yet.
        self._set_of: dict[str, int] = {}
        self._unanswered: list[int] = []
        # Whether the last answer of such a set, or a failure, calls for a decision.
        self._decision_due = False

    @property
    def listening(self) -> bool:
        """True if the next decision depends on these attempts alone, so that a report is awaited."""
        return bool(self._asked) and not self._decision_due

    def ask(self, work: str, attempt: int, item: WorkItem, now: float) -> None:
        """Adds an attempt."""
        self._asked[work, attempt] = item, now

    def await_sets(self, awaited: tuple[Collection[str], ...]) -> None:
        """The next decision is due once all works of one of these sets are answered, or one attempt fails."""
        self._set_of = {work: number for number, works in enumerate(awaited) for work in works}
        self._unanswered = [len(works) for works in awaited]
        self._decision_due = False

    def await_reports(self) -> None:
        """Record that the due decision was made."""
        self._decision_due = False

    def end(self, work: str, attempt: int, succeeded: bool) -> tuple[WorkItem, float] | None:
        """Take out an attempt that ended. Returns its work item and its start time, or None for an attempt of an
        earlier round or driver."""
        item_and_time = self._asked.pop((work, attempt), None)
        if not succeeded or (item_and_time and self._releases(work)):
            self._decision_due = True
        return item_and_time

    def forget(self) -> None:
        """Takes out all attempts."""
        self._asked.clear()

    def _releases(self, work: str) -> bool:
        if (number := self._set_of.pop(work, None)) is None:
            return False
        self._unanswered[number] -= 1
        return not self._unanswered[number]
