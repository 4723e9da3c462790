"""Weights, metrics, evaluations and billed reads are independent of the caches and earlier runs of a process."""

from contextlib import ExitStack, closing

import pytest
from algorithm_families import family
from driver import SMALL
from driver import train as drive

from marless.backends import local
from marless.backends.inline import InlineInvoker
from marless.coordinator.config.loading import load
from marless.coordinator.core.state import Plan
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Ports
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import load_prices
from marless.estimation.recording import Lines
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.warm_cache import WARM
from marless.infra.local.file_storage import FileStorage
from marless.reports.weights import weights_sha256

# A replay buffer of two of four rounds.
REPLAYED = ("algorithm.updates_per_round=2", "algorithm.batch_size=16", "algorithm.buffer_size=500")
ON_POLICY = ("algorithm.epochs=1", "algorithm.num_minibatches=2")
TINY = (
    "algorithm.hidden=[8]", "actors.rollouts=2", "actors.num_envs=4", "stop.rounds=4", "sharing.rule=none",
    "evaluation.every=2", "checkpoint_every=2",
)  # fmt: skip
SETTINGS = {
    spec.name: (
        *SMALL, *TINY, *(ON_POLICY if family(spec) == "on-policy" else REPLAYED), f"algorithm.name={spec.name}",
    ) for spec in ALGORITHMS.ours() if not spec.imitates and not spec.function
}  # fmt: skip
SPLIT, WHOLE = "placement.rule=split", "placement.rule=whole"
# Nothing, a few objects, and everything.
BOUNDS = (0, 30_000, 128 << 20)


class Forgetful(InlineInvoker):
    def run(self, *request):
        WARM.clear()
        return super().run(*request)


def outcome(run):
    lines = [(line.round, line.env_steps, line.agent_returns, line.metrics, line.evaluation) for line in run.lines]
    return run.state.status, run.sha256, lines, run.state.final, run.state.absolute


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize("rule", [SPLIT, WHOLE])
@pytest.mark.parametrize("name", SETTINGS)
def test_run_is_same_with_any_bound_or_processes(tmp_path, name, rule):
    settings, runs = [*SETTINGS[name], rule], []
    for bound in BOUNDS:
        WARM.bound = bound
        runs.append(drive(tmp_path / str(bound), settings))
    invoker = Forgetful(FileStorage(tmp_path / "cold" / local.OBJECTS))
    cold = drive(tmp_path / "cold", settings, back_end=lambda at, workers: local.BACKEND.attach(at, invoker, workers))
    runs.append(cold)
    assert runs[0].state.status == "finished"
    assert all(outcome(run) == outcome(runs[0]) for run in runs)
    assert len({(run.state.meter.gets, run.state.meter.bytes_read) for run in runs}) == 1


def side_by_side(folder, settings):
    """Train runs of one name in separate folders, in one process, step by step in turn. Returns the hashes of their
    weights, and their GETs."""
    with ExitStack() as stack:
        backends = [
            stack.enter_context(closing(local.BACKEND.open(folder / str(n), 1))) for n, _ in enumerate(settings)
        ]
        drivers = []
        for backend, chosen in zip(backends, settings, strict=True):
            plan = Plan("run", load(None, chosen), "code", load_prices(), Platform())
            drivers.append(Driver(plan, Ports(backend.storage, backend.ledger, backend.invoker, Lines())))
        for driver in drivers:
            driver.begin()
        going = drivers
        while going:
            going = [driver for driver in going if driver.step()]
        assert all(driver.state.status == "finished" for driver in drivers)
        return (
            [weights_sha256(driver.state, backend.storage) for driver, backend in zip(drivers, backends, strict=True)],
            [driver.state.meter.gets for driver in drivers],
        )


# Each bound and each set of runs once in the quick tests.
@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("names", [("mappo", "mappo"), ("qmix", "qmix"), ("maddpg", "iql", "qmix")], ids=" ".join)
def test_runs_of_same_name_sharing_process_are_unchanged(tmp_path, names, bound):
    settings = [[*SETTINGS[name], f"seed={seed}", SPLIT] for seed, name in enumerate(names)]
    WARM.bound = bound
    together, gets = side_by_side(tmp_path / "together", settings)
    alone = [drive(tmp_path / str(n), chosen) for n, chosen in enumerate(settings)]
    assert together == [run.sha256 for run in alone]
    assert len(set(together)) == len(names)
    assert gets == [run.state.meter.gets for run in alone]


def without_state_at_round_2(folder):
    """The stored state is gone in the middle of a run."""
    gone = []

    def remove(state):
        if state.round == 2 and not gone:
            gone.extend(folder / "objects" / ref.key for ref in state.objects)
            for path in gone:
                path.unlink()
        return False

    return remove


def test_run_with_lost_state_uses_cache_or_fails(tmp_path):
    settings = [*SETTINGS["mappo"], SPLIT]
    expected = drive(tmp_path / "sound", settings)
    warm = drive(tmp_path / "warm", settings, leave=without_state_at_round_2(tmp_path / "warm"))
    assert (warm.state.status, warm.sha256) == ("finished", expected.sha256)
    WARM.bound = 0
    failed = drive(tmp_path / "cold", settings, leave=without_state_at_round_2(tmp_path / "cold"))
    assert failed.state.status == "failed"
    assert " of round 3: rounds/000001/learn/" in failed.state.reason
