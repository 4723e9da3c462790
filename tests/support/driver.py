"""Trains in a folder, from the start or from its ledger: `train` in this process, or as a program.

    python driver.py FOLDER WORKERS key=value ...

prints ``round N`` as rounds finish and ``STATUS HASH`` at the end. SIGINT and SIGTERM end it resumably. HOLD="N ..." in
its environment stops the process (SIGSTOP) after N rounds, when it has just invoked the next round. It stops again
after each further number, so that a test can act at a known moment.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from marless.backends import local
from marless.backends.base import Connection
from marless.coordinator.config.loading import load
from marless.coordinator.core import budget
from marless.coordinator.core.state import NO_INPUTS, Plan, RoundLine, RunInputs, State
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Ports, Storage
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import load_prices
from marless.functions.errors import NoSuchObject
from marless.infra.local.file_storage import FileStorage
from marless.reports.journal import JsonLines, read
from marless.reports.weights import weights_sha256
from marless.runs.inputs.stored_inputs import store_inputs

# A run of a fraction of a second.
SMALL = ("actors.num_envs=8", "evaluation.every=2", "evaluation.episodes=4", "evaluation.final_episodes=4")
# The default's 32 steps of each network in each round take much of such a run's time. Four steps are of every kind: two
# passes over two minibatches.
FEW_STEPS = ("algorithm.epochs=2", "algorithm.num_minibatches=2")
# Sharing is switched on and off by every full window: no gradient of normalised returns is near 100.
FLIPPING = ("trend.rule=paper", "trend.gamma=100.0", "trend.window=3", "sharing.rule=dynamic", "sharing.start=apart")
# Every team is allowed to share, and every trial passes.
EASY = ("sharing.epsilon=1.0", "sharing.margin=10.0", "sharing.trial_episodes=16", "sharing.distil_steps=5")
CONTROLLER = (
    *FLIPPING, *EASY, "scaling.rule=gns", "actors.rollouts=12", "scaling.min_rollouts=2", "stop.rounds=8",
    "algorithm.name=ippo",
)  # fmt: skip
# Agents begin with one network, and part by their hidden roles after the second round.
ROLES = (
    "task.name=roles/blind_spread", "task.agents=4", "task.options.roles=2", "algorithm.name=ippo",
    "sharing.rule=roles", "actors.rollouts=10", "stop.rounds=4",
)  # fmt: skip


def part_of_run(state: State) -> str:
    """The phase of a run, and in a round "sample" until learners begin, then "learn"."""
    if state.phase != "round":
        return state.phase
    return "learn" if any(work.startswith("learn/") for work in state.slots) else "sample"


def in_flight(round_: int, phase: str) -> Callable[[State], bool]:
    """Return the moment with tasks of the phase of the round in flight, to leave a run there."""
    return lambda state: (
        (state.round, part_of_run(state)) == (round_, phase) and any(slot.waiting for slot in state.slots.values())
    )


@dataclass(frozen=True)
class Trained:
    """The result of a driver: its last state, the lines of metrics.jsonl, the hash of the weights, the bill."""

    state: State
    lines: list[RoundLine]
    sha256: str
    dollars: Decimal


def outcome(run: Trained) -> tuple[object, ...]:
    return run.sha256, [(line.return_mean, line.metrics, line.evaluation) for line in run.lines], run.state.final


def stores_what_it_needs(folder: Path, run: Trained) -> bool:
    """Return whether the folder holds exactly the objects that the run needs to continue."""
    objects = folder / local.OBJECTS
    left = {str(path.relative_to(objects)) for path in objects.rglob("*.safetensors")}
    return left == {ref.key for ref in run.state.durable_refs}


def train(
    folder: Path,
    overrides: Sequence[str],
    workers: int = 1,
    leave: Callable[[State], bool] = lambda state: False,
    asking: Callable[[], bool] = lambda: True,
    inputs: RunInputs = NO_INPUTS,
    back_end: Callable[[Path, int], Connection] = local.BACKEND.open,
) -> Trained:
    """Drives to the end, or until `leave` returns true and everything is dropped as by a kill. `inputs` are stored in
    the folder."""
    folder.mkdir(exist_ok=True)
    backend = back_end(folder, workers)
    try:
        config = load(None, few_steps(overrides))
        backend.serve(config.resources)
        platform = Platform(init_limit_ms=backend.platform.init_limit_ms, concurrency=workers)
        plan = Plan("run", config, "code", load_prices(), platform, inputs)
        metrics = folder / "metrics.jsonl"
        driver = Driver(plan, Ports(backend.storage, backend.ledger, backend.invoker, JsonLines(metrics)))
        driver.begin()
        is_asking = True
        while not leave(driver.state) and driver.step(is_asking := is_asking and asking()):
            if not is_asking:
                backend.withdraw()
        state = driver.state
        dollars = budget.dollars(plan, state.meter)
        return Trained(state, read(metrics), _weights(state, backend.storage), dollars)
    finally:
        backend.close()


def stored_inputs_of(folder: Path, overrides: Sequence[str]) -> RunInputs:
    """Return the inputs that the settings give a run, stored in its folder: the model of agents that speak."""
    return store_inputs(load(None, few_steps(overrides)), "run", FileStorage(folder / local.OBJECTS))


def few_steps(overrides: Sequence[str]) -> list[str]:
    """The settings of a run with `FEW_STEPS`, where its algorithm makes passes and `overrides` say nothing else."""
    makes_passes = hasattr(load(None, overrides).algorithm, "epochs")
    return [*(FEW_STEPS if makes_passes else ()), *overrides]


def _weights(state: State, storage: Storage) -> str:
    try:
        return weights_sha256(state, storage)
    except NoSuchObject:
        return ""


def main() -> None:
    """The program: trains as its arguments say, and prints its rounds and how it ended."""
    interrupted: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: interrupted.append(number))
    last_round, holds = -1, [int(number) for number in os.environ.get("HOLD", "").split()]

    def report_round(state: State) -> bool:
        nonlocal last_round
        if state.round != last_round:
            last_round = state.round
            print(f"round {last_round}", flush=True)
        if holds and last_round >= holds[0] and any(slot.waiting for slot in state.slots.values()):
            del holds[0]
            print("holding", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        return False

    folder, overrides = Path(sys.argv[1]), sys.argv[3:]
    inputs = stored_inputs_of(folder, overrides)
    trained = train(folder, overrides, int(sys.argv[2]), report_round, lambda: not interrupted, inputs)
    print(trained.state.status, trained.sha256, flush=True)


if __name__ == "__main__":
    main()
