"""summary.json: the results of a run, the same whether or not it was interrupted and resumed."""

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.core.opponents import evaluated_side
from marless.coordinator.core.state import Plan, State
from marless.coordinator.file_reading import UnreadableFile, read_json
from marless.coordinator.pricing.bill import Bill
from marless.functions.function_specs import BILLED, by_function
from marless.machine import Machine, this_machine
from marless.reports import statistics
from marless.reports.call_table import CallTotals, totals
from marless.reports.lost_attempts import LostAttempts, lost_attempts
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.plateau import Plateau
from marless.reports.section import Section
from marless.reports.statistics import FinalReturn, Interval
from marless.reports.text import counted, money
from marless.runs.folder import SUMMARY, Identity, RunFolder


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """A table of summary.json."""


class AbsoluteReturn(_Part, frozen=True, kw_only=True):
    """The absolute metric: the policies of the best evaluation, after `round` rounds, on ten times the episodes. The
    final policies are used if several sides learn or no evaluation is ahead of them by its error."""

    mean: float
    iqm: float
    ci95: Interval | None
    episodes: int
    round: int


class _Total(_Part, frozen=True, kw_only=True):
    total: float


if TYPE_CHECKING:
    _Compute = _Total
else:
    _Compute = by_function(_Total, float, 0.0)


class Dollars(_Compute, frozen=True, kw_only=True):
    """The bill's sums, also by function. bill.json has every line and every digit."""

    storage: float
    requests: float
    # Of runs in the cloud.
    coordinator: float = 0.0
    # Of resources.
    actions: float = 0.0
    logs: float = 0.0
    transfer: float = 0.0

    def __post_init__(self) -> None:
        # An amount that is missing reads as 0, since older programs had fewer kinds of functions.
        require_sum([getattr(self, name) for name in self.__struct_fields__ if name != "total"], self.total)


def require_sum(dollars: Iterable[float], total: float) -> None:
    """Raise `ValueError` if amounts do not add up to their total, for example in an edited file."""
    amount = math.fsum(dollars)
    if not math.isclose(amount, total, rel_tol=1e-9, abs_tol=1e-12):
        raise ValueError(f"its dollars add up to {amount:g}, and its total is {total:g}")


class Measured(_Part, frozen=True, kw_only=True):
    """Measurements outside of the run's state. They are seconds of all its commands, seconds from the first command to
    the first sampling task, and peak memory by function in MiB."""

    wall_seconds: float
    start_up_seconds: float | None
    peak_mb: dict[str, float]


class Summary(ShownResult, _Part, frozen=True, kw_only=True):
    """The file. Returns are undiscounted and summed over agents.

    `status`: `finished`, `interrupted`, `running`, or `stopped` and `failed` with a `reason`. `train_seconds` is the
    time from the first task to the last, without interruptions. The evaluations at the end took `final_seconds` of it,
    and `env_steps_per_second` leaves them out. `wall_seconds` is the time of all commands, and `start_up_seconds` the
    time from the first command to its first sampling task. `final_return` is the greedy return of the final policies on
    fresh start states. `peak_mb` is the largest memory, in MiB, of a process that served the function. A process that
    serves several functions counts for each. `plateau`: the return of the rounds no longer rises. `lost`: attempts
    without an answer. If agents compete, returns are sums over the agents of `side`, and `final_sides` and
    `absolute_sides` are the means of all sides. `final_env_metrics` and `absolute_env_metrics` are the means of the
    environment's metrics over the same episodes. `actions`: the calls of resources, by name. `registration` is the hash
    of the file of the run's study. `cloud_dollars`: the price of a local run in the cloud, in its cheapest placement.
    An unfinished run has null for later values.
    """

    run: str
    commit: str | None
    seed: int
    status: str
    reason: str
    rounds: int
    env_steps: int
    wall_seconds: float
    train_seconds: float
    env_steps_per_second: float
    start_up_seconds: float | None
    final_return: FinalReturn | None
    absolute_return: AbsoluteReturn | None
    dollars: Dollars
    peak_mb: dict[str, float | None]
    weights_sha256: str | None
    machine: Machine
    plateau: Plateau | None = None
    lost: LostAttempts = LostAttempts()
    side: str = ""
    final_sides: dict[str, float] = {}
    absolute_sides: dict[str, float] = {}
    final_seconds: float = 0.0
    final_env_metrics: dict[str, float] = {}
    absolute_env_metrics: dict[str, float] = {}
    actions: dict[str, CallTotals] = {}
    registration: str = ""
    cloud_dollars: float | None = None

    @property
    def headline(self) -> str:
        """Return the run, its status, rounds, return and dollars."""
        final = f", return {self.final_return.mean:.1f}" if self.final_return else ""
        rounds = counted(self.rounds, "round")
        return f"{self.run}, {self.status}, {rounds}{final}, {money(self.dollars.total)}"

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return one row with all fields."""
        return [msgspec.to_builtins(self)]

    @property
    def sections(self) -> list[Section]:
        """Return the bill and all other numbers."""
        values = flatten(self.records[0]).items()
        rows = [(name, value) for name, value in values if isinstance(value, int | float) and value]
        bill = tuple((name[8:], money(value)) for name, value in rows if name.startswith("dollars."))
        rest = tuple((name, f"{value:,.6g}") for name, value in rows if not name.startswith("dollars."))
        return [Section("The bill", ("part", "dollars"), bill), Section("The run", ("", "value"), rest)]


def summarise(
    plan: Plan,
    identity: Identity,
    state: State,
    bill: Bill,
    measures: Measured,
    status: str,
    weights_sha256: str | None,
    plateau: Plateau | None = None,
) -> Summary:
    """The summary of a run's current state."""
    return Summary(
        run=plan.run,
        commit=identity.commit,
        seed=plan.config.seed,
        status=status,
        reason=state.reason,
        rounds=state.round,
        env_steps=state.env_steps,
        wall_seconds=round(measures.wall_seconds, 3),
        train_seconds=round(state.seconds, 6),
        final_seconds=round(state.seconds - _trained_s(state), 6),
        env_steps_per_second=_speed(state),
        start_up_seconds=measures.start_up_seconds,
        final_return=statistics.summary(state.final) if state.final else None,
        absolute_return=_absolute(state),
        dollars=Dollars(**{name: float(getattr(bill, name)) for name in Dollars.__struct_fields__}),
        peak_mb={name: round(measures.peak_mb[name], 1) if name in measures.peak_mb else None for name in BILLED},
        weights_sha256=weights_sha256,
        machine=_machine(plan, measures),
        plateau=plateau,
        lost=lost_attempts(plan, state),
        side=_side(plan, state),
        final_sides=state.final_sides,
        absolute_sides=state.absolute_sides,
        final_env_metrics=state.final_env_metrics,
        absolute_env_metrics=state.absolute_env_metrics,
        actions=totals(state.meter, bill),
        registration=identity.registration,
    )


def _side(plan: Plan, state: State) -> str:
    side = evaluated_side(plan.config, state.env_spec) if state.spec else None
    return side.name if side else ""


def _machine(plan: Plan, measures: Measured) -> Machine:
    return this_machine(measures.wall_seconds) if plan.platform.cpu_scaling else replace(this_machine(0), load=0.0)


def read(folder: RunFolder) -> Summary | None:
    """Return the run's summary, or None before it has one. Raises `UnreadableFile` for a damaged summary."""
    try:
        return read_json(folder.path / SUMMARY, Summary)
    except FileNotFoundError:
        return None


def earlier(folder: RunFolder) -> Summary | None:
    """Return the summary, or None if it is damaged, because the ledger has all its data except times."""
    with suppress(UnreadableFile):
        return read(folder)
    return None


def has_finished(folder: RunFolder) -> bool:
    """Return whether the run has finished. A run that was stopped, was killed or failed has not."""
    results = earlier(folder)
    return results is not None and results.status == "finished"


def measured_before(folder: RunFolder, seconds: float) -> Measured:
    """Return the measurements of the run's earlier commands. If they wrote none, only these `seconds` are known."""
    before = earlier(folder)
    return Measured(
        wall_seconds=before.wall_seconds if before else seconds,
        start_up_seconds=before.start_up_seconds if before else None,
        peak_mb=peaks(before),
    )


def peaks(summary: Summary | None) -> dict[str, float]:
    """Return peak memory in MiB by function, for functions that were called."""
    return {name: peak for name, peak in summary.peak_mb.items() if peak is not None} if summary else {}


def _speed(state: State) -> float:
    """Steps a second until the last round was over: the evaluations after it take no steps."""
    trained_s = _trained_s(state)
    return round(state.env_steps / trained_s, 1) if trained_s else 0.0


def _trained_s(state: State) -> float:
    return state.lines[-1].seconds if state.lines else state.seconds


def _absolute(state: State) -> AbsoluteReturn | None:
    if not state.absolute or state.best is None:
        return None
    returns = statistics.summary(state.absolute)
    return AbsoluteReturn(
        mean=returns.mean, iqm=returns.iqm, ci95=returns.ci95, episodes=returns.episodes, round=state.best.round
    )
