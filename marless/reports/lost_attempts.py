"""Attempts of tasks that ended without an answer: their cost, and lines about them while a run continues."""

import time
from collections.abc import Callable

import msgspec

from marless.coordinator.core import budget
from marless.coordinator.core.round_graph import task_name
from marless.coordinator.core.state import Plan, State
from marless.coordinator.pricing.bill import charge_of
from marless.functions.function_specs import NAMES
from marless.reports.text import counted, money, seconds

# The first pause after a line, and the longest: each pause is twice as long as the one before.
_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 600.0


class LostAttempts(msgspec.Struct, frozen=True, kw_only=True):
    """A run's attempts without an answer: their number, their billed seconds and dollars, and the `unreported` ones."""

    attempts: int = 0
    seconds: float = 0.0
    dollars: float = 0.0
    unreported: int = 0

    def __str__(self) -> str:
        """Return ``2 attempts, 12.0 s, $0.0003 of the bill``, or '' without attempts."""
        if not self.attempts:
            return ""
        unreported_text = {0: "", 1: "; 1 never reported and is billed at its maximum"}.get(
            self.unreported, f"; {self.unreported:,} never reported and are billed at their maximum"
        )
        costs = f"{seconds(self.seconds)}, {money(self.dollars)} of the bill"
        return f"{counted(self.attempts, 'attempt')}, {costs}{unreported_text}"


def lost_attempts(plan: Plan, state: State) -> LostAttempts:
    """Return the run's lost attempts so far."""
    charges = [charge_of(state.lost_use, name) for name in NAMES]
    return LostAttempts(
        attempts=sum(charge.invocations for charge in charges),
        seconds=sum(charge.billed_ms for charge in charges) / 1000,
        dollars=float(budget.dollars(plan, state.lost_use)),
        unreported=sum(charge.attempts_lost for charge in charges),
    )


class RetryLines:
    """Writes a line when tasks failed and are tried again. Later failures share a line, in ever longer intervals."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._pause_s, self._quiet_until = clock, _PAUSE_S, 0.0
        self._phase: tuple[str, int] | None = None
        # Failures by task of the phase. Tasks that no line has named yet, with their problem.
        self._failures: dict[str, int] = {}
        self._untold: list[tuple[str, str]] = []

    def lines(self, plan: Plan, state: State) -> list[str]:
        """Return a line about failures that are new in `state`, if it is time for one."""
        self._compare(plan, state)
        if not self._untold or self._clock() < self._quiet_until:
            return []
        self._quiet_until = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        (task, problem), *others = self._untold
        self._untold = []
        verb = f"and {len(others):,} more failed and are" if others else "failed and is"
        return [f"{task} {verb} tried again: {problem}"]

    def _compare(self, plan: Plan, state: State) -> None:
        if self._phase != (state.phase, state.round):
            self._phase, self._failures = (state.phase, state.round), {}
        for work, slot in state.slots.items():
            is_new = slot.failures > self._failures.get(work, 0)
            self._failures[work] = slot.failures
            if is_new and slot.failures < plan.config.attempts and not slot.not_retryable:
                self._untold.append((task_name(state, work), slot.problem))
