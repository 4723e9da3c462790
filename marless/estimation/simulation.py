"""Simulations of a recorded run: the real driver, planner and bill on a virtual clock, with other numbers of rollouts.

The number of rollouts and the team stay fixed, because a controller's decisions on other data are unknown.
"""

import dataclasses
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from marless.backends import registry
from marless.coordinator.config.schema import RANDOM, League, RunConfig, Stop
from marless.coordinator.core.state import Plan
from marless.coordinator.errors import UserError
from marless.estimation.forecast import Simulated, forecast
from marless.estimation.recording import Recording, without_switches
from marless.estimation.service_times import ServiceTimes, fit
from marless.estimation.targets import Target
from marless.estimation.virtual_functions import NO_FAULTS, Faults, VirtualClock, VirtualLedger
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.section import Section
from marless.reports.text import counted, money

# The first round starts the functions.
LEAST_ROUNDS = 3
# The columns of slot seconds, and the kinds of tasks in them.
_KINDS = {"sampling": ("sample", "whole"), "learning": ("learn", "grad"), "start-up": ("start-up",)}
# Rounds of the simulation that measures this coordinator's time between two waves of the recorded size.
_CALIBRATED = 8


@dataclass(frozen=True)
class SimulatedSetting:
    """The changes of a simulation. `slots` and `deployed` are by default as recorded. Rounds that only sample, because
    of `pipeline.lag`, come on top of `rounds`."""

    rollouts: int
    rounds: int
    slots: int
    deployed: bool = False
    faults: Faults = NO_FAULTS
    seed: int = 0


def simulate(recording: Recording, setting: SimulatedSetting) -> Simulated:
    """A simulated run. Raises `UserError` if the record does not suffice."""
    times = recording.service_times
    if setting.deployed:
        times = Target(registry.backend(registry.DEFAULT_REMOTE), setting.slots).times(times, recording.plan)
        return drive(recording, times, setting, VirtualLedger(VirtualClock(), times.between_s))
    # The coordinator of a simulation computes, too. The record has its time already.
    same = SimulatedSetting(recording.lines[-1].rollouts, _CALIBRATED, recording.slots)
    again = fit(drive(recording, times, same, VirtualLedger(VirtualClock())).records, same.slots)
    hand_over_s = max(0.0, times.hand_over_s - (again.hand_over_s - times.hand_over_s))
    commit_s = max(0.0, times.between_s - again.between_s)
    times = dataclasses.replace(times, hand_over_s=hand_over_s)
    return drive(recording, times, setting, VirtualLedger(VirtualClock(), commit_s))


def drive(recording: Recording, times: ServiceTimes, setting: SimulatedSetting, ledger: VirtualLedger) -> Simulated:
    """A simulated run with these service times and this ledger. It starts the ledger's clock."""
    plan = _plan(recording.plan, setting)
    run = forecast(plan, recording, times, ledger, plan.config.stop.rounds, setting.faults, setting.seed)
    if len(run.learning_lines) < 2:
        raise UserError(
            f"the simulated run ended after {len(run.lines)} rounds: {run.state.reason or 'too few rounds'}"
        )
    return run


def _plan(plan: Plan, setting: SimulatedSetting) -> Plan:
    config, inputs = _config(plan.config, setting), replace(plan.inputs, opponents=None)
    if setting.deployed:
        return Target(registry.backend(registry.DEFAULT_REMOTE), setting.slots).plan(config, inputs)
    platform = replace(plan.platform, concurrency=setting.slots, coordinator_mb=0)
    return dataclasses.replace(plan, config=config, platform=platform, inputs=inputs)


def _config(config: RunConfig, setting: SimulatedSetting) -> RunConfig:
    return replace(
        config,
        stop=Stop(rounds=setting.rounds + config.pipeline.lag),
        actors=replace(config.actors, rollouts=setting.rollouts),
        scaling=replace(config.scaling, rule="constant", min_rollouts=None),
        sharing=without_switches(config.sharing),
        opponents=replace(config.opponents, policies=RANDOM),
        league=League(),
    )


class Simulations(ShownResult, list[Simulated]):
    """Simulated runs that have `slots` functions at once, one for each number of rollouts."""

    def __init__(self, runs: Iterable[Simulated], slots: int) -> None:
        super().__init__(runs)
        self.slots = slots

    @property
    def headline(self) -> str:
        """Return the numbers of simulations and slots."""
        return f"{counted(len(self), 'simulation')}, {counted(self.slots, 'function')} at once"

    @property
    def sections(self) -> list[Section]:
        """Two tables, as 80 columns do not hold one."""
        rounds, parts = [], []
        for run in self:
            rollouts, (low, median, high) = f"{run.lines[-1].rollouts:,}", spread(run.round_s)
            times = (f"{value:.3g}" for value in (median, low, high))
            rounds.append((rollouts, *times, money(run.dollars), f"{run.utilisation:.0%}"))
            busy = (
                f"{sum(busy_s for name, busy_s in run.busy_s.items() if name.split(':')[0] in kinds):.3g}"
                for kinds in _KINDS.values()
            )
            parts.append((rollouts, f"{run.critical_path_s:.3g}", f"{1000 * run.coordinator_s:.3g}", *busy))
        names = ("rollouts", "longest tasks s", "coordinator ms", *(f"{name} s" for name in _KINDS))
        return [
            Section("", ("rollouts", "s a round", "least", "most", "$ a round", "busy"), tuple(rounds)),
            Section("", names, tuple(parts)),
        ]

    @property
    def sentences(self) -> list[str]:
        """Return the meaning of the columns."""
        rounds = counted(len(self[-1].round_s), "round")
        return [
            f"{counted(self.slots, 'function')} at once; median of {rounds}.",
            "Sampling, learning and start-up are sums over the functions of a round.",
            "The coordinator's time is real, on this machine.",
        ]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Lowest, median and highest."""
    return min(values), statistics.median(values), max(values)
