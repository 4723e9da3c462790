"""The interface of views, which show a run while it trains."""

from typing import NamedTuple

from marless.coordinator.config.defaults import lacks_kernels
from marless.coordinator.config.schema import Stop
from marless.coordinator.core.round_graph import LAST_EVALUATIONS, PHASES
from marless.coordinator.core.state import Plan, RoundLine, State
from marless.runs.summary import Summary


def run_title(name: str, plan: Plan) -> str:
    """Return a run's title: its name, and its engine if that is not the fastest."""
    # Deployed functions have kernels, whatever this machine has.
    if plan.platform.functions_outlive_driver or not lacks_kernels(plan.config.algorithm):
        return name
    return f"{name}, by numpy: no kernels can be used here, marless doctor says why"


class View:
    """Shows a run. This base class shows nothing."""

    def start(self, name: str, folder: str) -> None:
        """The run begins or continues."""

    def notice(self, plan: Plan, state: State, seconds_so_far: float) -> None:
        """Called after every decision, so it must be cheap."""

    def round(self, plan: Plan, line: RoundLine) -> None:
        """Called once for every new round."""

    def remark(self, text: str) -> None:
        """Tasks did something to their processes."""

    def finish(self, plan: Plan, summary: Summary, name: str, folder: str) -> None:
        """The run finished or stopped. Only `close` follows."""

    def close(self) -> None:
        """Restore the terminal. Repeated calls are allowed."""


def progress(stop: Stop, line: RoundLine, kept_dollars: float = 0.0) -> float:
    """Return the used share of the nearest limit, 0 to 1. A target return does not count, because the run may miss it.
    `kept_dollars` of the cap are reserved for final evaluations."""
    shares = [
        amount / limit
        for amount, limit in (
            (line.round, stop.rounds),
            (line.env_steps, stop.env_steps),
            (line.seconds, stop.seconds),
            (line.dollars, stop.dollars and max(line.dollars, stop.dollars - kept_dollars)),
        )
        if limit
    ]
    return min(1.0, max(shares, default=0.0))


def seconds_left(stop: Stop, line: RoundLine, kept_dollars: float = 0.0) -> float | None:
    """Return the estimated seconds of training until the nearest limit (see `progress`), or None."""
    share = progress(stop, line, kept_dollars)
    return line.seconds * (1 - share) / share if share else None


class EvaluationUnderWay(NamedTuple):
    """An evaluation with `over` finished episodes of `total`."""

    name: str
    over: int
    total: int

    def __str__(self) -> str:
        return f"{self.name}: {self.over:,} of {self.total:,} episodes"


def evaluation_under_way(plan: Plan, state: State) -> EvaluationUnderWay | None:
    """Return the evaluation that the run waits for, if any. Episodes count once their function has answered."""
    slots = [slot for slot in state.slots.values() if slot.item.kind == "evaluate"]
    count = sum(slot.item.weight for slot in slots if slot.done)
    if not slots or state.phase not in ("round", *LAST_EVALUATIONS):
        return None
    sizes = plan.config.evaluation_sizes(state.env_spec.horizon)
    total = getattr(sizes, "episodes" if state.phase == "round" else state.phase)
    return EvaluationUnderWay(PHASES[state.phase].doing or "evaluation", count, total) if count < total else None


class EvaluationClock:
    """Estimates the duration of the current evaluation from its episodes since the first look."""

    def __init__(self) -> None:
        self._name, self._began, self._before = "", 0.0, 0

    def seconds_left(self, evaluation: EvaluationUnderWay, now: float) -> float | None:
        """None before an episode has ended."""
        if evaluation.name != self._name or evaluation.over < self._before:
            self._name, self._began, self._before = evaluation.name, now, evaluation.over
        newly = evaluation.over - self._before
        return (now - self._began) * (evaluation.total - evaluation.over) / newly if newly else None


class TrainingSpeed:
    """Environment steps per second in the rounds of a command. Rounds with an evaluation, which takes extra time, count
    only until there are others."""

    def __init__(self) -> None:
        self._before: RoundLine | None = None
        self._steps, self._seconds, self._is_pure = 0, 0.0, False

    def add(self, line: RoundLine) -> None:
        """Adds a finished round."""
        before, self._before = self._before, line
        if before is None and line.round > 1:
            return
        steps, seconds = (
            (line.env_steps, line.seconds)
            if before is None
            else (line.env_steps - before.env_steps, line.seconds - before.seconds)
        )
        is_pure = line.evaluation is None
        if is_pure and not self._is_pure:
            self._steps, self._seconds, self._is_pure = 0, 0.0, True
        if is_pure == self._is_pure:
            self._steps, self._seconds = self._steps + steps, self._seconds + seconds

    @property
    def steps_per_second(self) -> float:
        """0 before the first round that counts."""
        return self._steps / self._seconds if self._seconds else 0.0
