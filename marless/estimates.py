"""Estimate cost and time of a run from Python."""

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from marless.backends import registry
from marless.coordinator.config.loading import overrides
from marless.coordinator.errors import UserError
from marless.estimation.estimate import Estimate, estimate_run
from marless.estimation.recording import recording_of
from marless.estimation.run_plan import RunPlan, plan_run
from marless.estimation.simulation import LEAST_ROUNDS, SimulatedSetting, Simulations
from marless.estimation.simulation import simulate as simulate_recording
from marless.estimation.targets import Target
from marless.estimation.virtual_functions import Faults
from marless.infra.local.available_cores import cores
from marless.training import ConfigLike, configuration
from marless.user_errors import path_of, short_errors

_FAULTS = ("slow", "cold", "throttled", "lost")


@short_errors()
def estimate(
    config: ConfigLike = None,
    *,
    backend: str = "local",
    workers: int | None = None,
    detach: bool = False,
    concurrency: int = 1000,
    **settings: Any,
) -> Estimate:
    """Estimate the cost of a run on AWS Lambda and its duration. A few of its rounds are played here first.

    Raises `ConfigError` and `UserError`.
    """
    place, count = registry.lookup(backend), workers or cores()
    if detach and not place.remote:
        raise UserError(f"detach needs a back-end with deployments: {', '.join(registry.remote_names())}")
    target = Target(place, count if place.runs_here else concurrency, detach)
    return estimate_run(configuration(config, settings), target, count).entries[0][1]


@short_errors()
def plan(
    config: ConfigLike = None,
    *,
    deadline_s: float | None = None,
    dollars: float | None = None,
    backend: str = "aws",
    workers: int | None = None,
    detach: bool = False,
    concurrency: int = 1000,
    **settings: Any,
) -> RunPlan:
    """Choose the cheapest placement of a run in the cloud that keeps a deadline and a cap of dollars with 95 %
    confidence. All placements train the same weights. A few rounds are played here first.

    Raises `ConfigError`, and `UserError` for limits that cannot be kept.
    """
    if not (place := registry.lookup(backend)).remote:
        raise UserError(f"a plan needs a back-end with deployments: {', '.join(registry.remote_names())}")
    target = Target(place, concurrency, detach)
    return plan_run(configuration(config, settings), target, workers or cores(), deadline_s, dollars)


@short_errors(slots="concurrency")
def simulate(
    run: str | os.PathLike[str],
    rollouts: Sequence[int] = (),
    *,
    concurrency: int | None = None,
    rounds: int = 20,
    deployed: bool = False,
    faults: Mapping[str, float] = MappingProxyType({}),
    seed: int = 0,
    workers: int | None = None,
    **settings: Any,
) -> Simulations:
    """Simulate rounds of a recorded run for each number of `rollouts` in a round: their duration and cost.

    Args:
        run: a run, or the path of a TOML file. A few rounds of a file are played here first.
        rollouts: numbers of rollouts. The default is the recorded number.
        concurrency: functions that run at once. The default is the recorded number.
        rounds: the number of rounds to simulate, 3 or more.
        deployed: give requests and storage their durations on AWS.
        faults: shares of attempts that are ``slow``, ``cold``, ``throttled`` or ``lost``.
        seed: the seed of the durations.
        workers: worker processes for a file's rounds. The default is one per core.
        **settings: keys over those of the run or the file; tables as mappings.

    Raises `ConfigError`, and `UserError` for a run that has no record.
    """
    _check(rollouts, rounds, faults)
    recording = recording_of(path_of(run), list(overrides(settings)), workers or cores())
    width = concurrency or recording.slots
    runs = (
        simulate_recording(recording, SimulatedSetting(count, rounds, width, deployed, Faults(**faults), seed))
        for count in rollouts or (recording.lines[-1].rollouts,)
    )
    return Simulations(runs, width)


def _check(rollouts: Sequence[int], rounds: int, faults: Mapping[str, float]) -> None:
    if min(rollouts, default=1) < 1:
        raise UserError(f"rollouts: {min(rollouts)} is not a number from 1")
    if rounds < LEAST_ROUNDS:
        raise UserError(f"at least {LEAST_ROUNDS} rounds are simulated: the first one starts the functions")
    if any(name not in _FAULTS or not 0 <= share <= 1 for name, share in faults.items()):
        raise UserError(f"faults: {dict(faults)} are not shares from 0 to 1 of {', '.join(_FAULTS)}")
