"""Measures the durations of a run's tasks on this machine, by a few of its rounds in a temporary folder."""

import tempfile
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from coordinator.config.schema import RunConfig, Stop
from coordinator.core.round_graph import PHASES
from coordinator.core.state import Plan, RoundLine, RunInputs, State
from coordinator.drive.answers import decode_answer
from coordinator.drive.driver import Driver, Ports
from coordinator.drive.ports import Invoker
from coordinator.errors import UserError
from coordinator.pricing.prices import load_prices
from functions.contract import Done, Report
from marless.backends import registry
from marless.estimation.platforms import makespan_s
from marless.runs.episodes import play, tasks
from marless.runs.given.datasets import store_dataset

# At least so many rounds, and more if they are fast; the first round warms up and counts separately.
LEAST_ROUNDS, MOST_ROUNDS, ENOUGH_S = 3, 20, 1.5
# Two blocks of the evaluator.
EPISODES = 320


@dataclass
class WorkReports:
    """Reports of one work item, in the order of rounds, and its last answer."""

    reports: list[Report] = field(default_factory=list)
    done: Done | None = None

    def duration_ms(self, first: bool) -> float:
        """Mean duration of the work item; `first`: that of the warm-up round."""
        durations = [report.duration_ms for report in self.reports]
        usual = durations[1:] or durations
        return durations[0] if first else sum(usual) / len(usual)


@dataclass(frozen=True)
class Calibration:
    """`works`: by work name. `evaluation`: of `episodes` episodes. `init_ms`: total start-up by function. `round_s`:
    seconds of a usual round, coordination included. `plan` and `state` are those of the calibration."""

    plan: Plan
    state: State
    works: dict[str, WorkReports]
    evaluation: WorkReports
    episodes: int
    init_ms: dict[str, float]
    round_s: float

    def busy_s(self, workers: int) -> float:
        """Seconds of a usual round's functions, with all learners as one wave."""
        kinds = [[name for name in self.works if name.startswith(kind)] for kind in ("sample/", "learn/")]
        return sum(makespan_s([self.works[name].duration_ms(False) for name in names], workers) for names in kinds)


class _Recorder:
    """An invoker that records reports."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker
        self.reports: list[Report] = []

    def invoke(self, function: str, id: str, attempt: int, body: bytes, timeout_s: float) -> None:
        self._invoker.invoke(function, id, attempt, body, timeout_s)

    def wait(self, timeout_s: float) -> list[Report]:
        reports = self._invoker.wait(timeout_s)
        self.reports += reports
        return reports

    def close(self) -> None:
        self._invoker.close()


class NoJournal:
    """A journal that discards finished rounds."""

    def record(self, line: RoundLine) -> None:
        """The state holds the last line."""

    def persist(self) -> None:
        """Nothing is kept."""


def calibrate(config: RunConfig, workers: int) -> Calibration:
    """Plays rounds of `config` with `workers` workers; raises `UserError` when they do not succeed, and for an
    unusable dataset."""
    short = replace(
        config,
        stop=Stop(rounds=MOST_ROUNDS),
        evaluation=replace(config.evaluation, every=MOST_ROUNDS + 1),
        # The first invocation warms up, so at least two are needed.
        placement=replace(config.placement, rounds=min(config.placement.rounds, MOST_ROUNDS // 2)),
    )
    count = min(EPISODES, max(config.evaluation.episodes, config.evaluation.final_episodes))
    with (
        tempfile.TemporaryDirectory(prefix="marless-") as folder,
        closing(registry.backend(registry.DEFAULT).open(Path(folder), workers)) as backend,
    ):
        backend.prewarm()
        inputs = RunInputs(dataset=store_dataset(short, "estimate", backend.storage))
        plan = Plan("estimate", short, "", load_prices(config.pricing.region), backend.platform, inputs)
        recorder = _Recorder(backend.invoker)
        driver = Driver(plan, Ports(backend.storage, backend.ledger, recorder, NoJournal()))
        round_s = _play_rounds(driver)
        evaluation = _evaluate(plan, driver.state, recorder, count)
    works, init_ms = _by_work(recorder.reports), _init_ms(recorder.reports)
    return Calibration(plan, driver.state, works, evaluation, count, init_ms, round_s)


def _play_rounds(driver: Driver) -> float:
    """Plays rounds until enough is measured; returns the seconds of a usual round."""
    driver.begin()
    since, warm, rounds = time.monotonic(), 0.0, 0
    ask = True
    while driver.step(ask):
        state = driver.state
        if state.round and not rounds:
            warm, rounds = state.seconds, state.round
        enough = state.round >= LEAST_ROUNDS and time.monotonic() - since > ENOUGH_S
        ask = not enough and not PHASES[state.phase].ends
    state = driver.state
    if state.status not in ("running", "finished") or state.line is None:
        raise UserError(f"the calibration failed: {state.reason}")
    return (state.line.seconds - warm) / (state.round - rounds)


def _evaluate(plan: Plan, state: State, invoker: Invoker, episodes: int) -> WorkReports:
    measured = WorkReports()
    for stream in ("first", "second"):
        request = replace(tasks(plan, state, episodes, stream)[0], episodes=episodes)
        [(reply, report)] = play(invoker, [request], plan.config.attempts)
        measured.reports.append(report)
        _, answer = decode_answer(report)
        assert isinstance(answer, Done)
        measured.done = replace(answer, reply=reply)
    return measured


def _by_work(reports: Iterable[Report]) -> dict[str, WorkReports]:
    works: dict[str, WorkReports] = {}
    for report in reports:
        _, answer = decode_answer(report)
        if isinstance(answer, Done):
            measured = works.setdefault(work_of(report.id), WorkReports())
            measured.reports.append(report)
            measured.done = answer
    return works


def work_of(id: str) -> str:
    """The work item's name in a task's id."""
    return id.split("/", 2)[2]


def _init_ms(reports: Iterable[Report]) -> dict[str, float]:
    init_ms: dict[str, float] = {}
    for report in reports:
        init_ms[report.function] = init_ms.get(report.function, 0.0) + report.init_ms
    return init_ms
