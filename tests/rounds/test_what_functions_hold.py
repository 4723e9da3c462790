"""Functions' measured memory exceeds the coordinator's lower bound, but not by much."""

import tracemalloc

import pytest
from driver import train

from marless.backends import local
from marless.backends.inline import InlineInvoker
from marless.coordinator.config.loading import load
from marless.coordinator.core import memory_bound, opponents
from marless.coordinator.platform import Platform
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.environments import registry
from marless.functions.warm_cache import WARM
from marless.infra.local.file_storage import FileStorage

# Networks much larger than their activations, and observations much wider than the other recorded arrays.
NETWORKS = ("task.name=toy/signal", "actors.num_envs=2", "algorithm.hidden=[300,300]")
SEEN = (
    "task.name=mpe/simple_spread",
    "task.agents=12",
    "actors.num_envs=16",
    "actors.rollouts=2",
    "algorithm.hidden=[4]",
)
SHORT = ("sharing.rule=none", "stop.rounds=3", "evaluation.episodes=2", "evaluation.final_episodes=2")
ON_POLICY = ("algorithm.epochs=1", "algorithm.num_minibatches=2")
REPLAYED = ("algorithm.updates_per_round=2", "algorithm.batch_size=4")


class Measured(InlineInvoker):
    """Each call's peak in bytes, by function, above the level before the run."""

    def __init__(self, blobs):
        super().__init__(blobs)
        self.peaks = {}
        self._before = tracemalloc.get_traced_memory()[0]

    def run(self, attempt):
        tracemalloc.reset_peak()
        report = super().run(attempt)
        # An actor that describes the task plays no rollout.
        if not attempt.id.endswith("/describe"):
            peak = tracemalloc.get_traced_memory()[1] - self._before
            self.peaks[attempt.function] = max(peak, self.peaks.get(attempt.function, 0))
        return report


def measured(folder, settings):
    WARM.bound = 0  # other caches have their own bound, but the replay buffer counts
    tracemalloc.start()
    try:
        invoker = Measured(FileStorage(folder / local.OBJECTS))
        state = train(folder, settings, back_end=lambda at, workers: local.BACKEND.attach(at, invoker, workers)).state
    finally:
        tracemalloc.stop()
    return state, invoker.peaks


def counted(settings):
    config = load(None, settings)
    spec = registry.spec(config.task)
    team = opponents.initial_team(config, spec, None)
    learner, player = memory_bound.learner(config, spec, team, Platform()), memory_bound.player(config, spec, team)
    return {"learner": sum(learner), "actor": sum(player), "evaluator": sum(player)}


def settings_of(name, rule, *more):
    own = ON_POLICY if "epochs" in ALGORITHMS.lookup(name).config.__struct_fields__ else REPLAYED
    return [*SHORT, *more, *own, f"algorithm.name={name}", f"placement.rule={rule}"]


@pytest.fixture(scope="module", autouse=True)
def loaded_modules(tmp_path_factory):
    """The modules that a first run imports are not counted as memory of its functions."""
    train(tmp_path_factory.mktemp("before"), settings_of("ippo", "packed", *NETWORKS))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *((spec.name, "packed") for spec in ALGORITHMS.ours() if spec.part_bytes and not spec.imitates),
        ("mappo", "split"),
        ("mappo", "fused"),
        ("qmix", "whole"),
    ],
)
def test_networks_take_between_counted_and_triple_memory(tmp_path, name, rule):
    settings = settings_of(name, rule, *NETWORKS)
    state, peaks = measured(tmp_path, settings)
    least = counted(settings)
    assert state.status == "finished"
    assert peaks.keys() == ({"learner", "evaluator"} if rule == "whole" else {"learner", "actor", "evaluator"})
    for function, peak in peaks.items():
        assert least[function] < peak < 3 * least[function]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["ippo", "iql"])
def test_observations_take_between_counted_and_triple_memory(tmp_path, name):
    settings = settings_of(name, "packed", *SEEN)
    state, peaks = measured(tmp_path, settings)
    assert state.status == "finished"
    assert counted(settings)["learner"] < peaks["learner"] < 3 * counted(settings)["learner"]


def test_run_too_large_for_learner_ends_before_training(tmp_path):
    settings = settings_of("mappo", "fused", *SEEN, "algorithm.hidden=[20000]", "functions.learner.memory_mb=128")
    state, peaks = measured(tmp_path, settings)
    assert (state.status, state.round, state.objects, peaks) == ("failed", 0, (), {})
    assert state.reason.startswith("functions.learner.memory_mb: a learner needs over ")
