"""Both engines train the same networks: a round of every algorithm, on random tasks."""

import numpy as np
import pytest
import synthetic
from built_kernels import needs_kernels
from engine_rounds import CHOICES, COMPARABLE, NUMBERS, SETTINGS, require_alike, trained, with_memory

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.functions.algorithms import engine
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.minibatches import Independent, shuffled_minibatches
from marless.functions.algorithms.ppo.specs import IppoConfig
from marless.functions.algorithms.specification import Share
from marless.functions.errors import BadRequest, MissingExtra, NotFinite
from marless.functions.learner import stages
from marless.functions.nn import recurrent
from marless.functions.nn.losses import ClippedValueLoss
from marless.functions.nn.shape import Network
from marless.testing.algorithms.conformance import check
from marless.testing.algorithms.random_tasks import TASKS

# The differences that rounding makes: some hundred products of some ten numbers, of the order of one.
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-10}


@pytest.mark.one_in(7)
@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_round_is_the_same_with_either_engine(name, recurrent, layer_norm, precision):
    settings = {"recurrent": recurrent, "layer_norm": layer_norm, **COMPARABLE.get(name, {})}
    plain, other = (trained(name, precision, engine=library, **settings) for library in ("numpy", "torch"))
    require_alike(plain, other, TOLERANCE[precision])


@pytest.mark.parametrize(
    ("name", "task", "settings"),
    [("isac", CHOICES, {}), ("masac", NUMBERS, {"recurrent": True}), ("maddpg", NUMBERS, {"twin_critics": True})],
)
def test_round_of_other_heads_is_same_by_engine(name, task, settings):
    plain, other = (
        trained(name, np.float64, TASKS[task], engine=library, **settings) for library in ("numpy", "torch")
    )
    assert plain.tensors.keys() == other.tensors.keys()
    for key, array in plain.tensors.items():
        np.testing.assert_allclose(other.tensors[key], array, rtol=1e-10, atol=1e-10, err_msg=key)


@pytest.mark.slow
@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", SETTINGS)
def test_algorithms_keep_their_rules_with_torch(name):
    settings = with_memory(name, {"hidden": [8, 8], "engine": "torch", "recurrent": True})
    replayed = {"updates_per_round": 2, "batch_size": 8, "buffer_size": 42}
    more = replayed if algorithms.algorithm(name).config().replayed_steps else {"epochs": 1, "num_minibatches": 2}
    assert check(algorithms.algorithm(name), settings | more, [TASKS[SETTINGS[name]]]) == ()


def without_cuts(spec, rollout):
    """The rollout with episodes that all end before it does, by terminations."""
    ended = rollout["ended"].copy()
    ended[-1] = True
    cuts = {name: array[:, :0] for name, array in rollout.items() if name.startswith("cut_")}
    return rollout | cuts | {"ended": ended, "cut": rollout["cut"][:0], "cut_state": rollout["cut_state"][:0]}


@pytest.mark.parametrize("recurrent", [False, True])
def test_round_without_cut_is_same_by_engine(recurrent):
    """For example, games of one step have no state to value after a cut."""
    learned = []
    for engine_ in ("numpy", "torch"):
        settings = {"hidden": [5, 4], "recurrent": recurrent, "engine": engine_}
        context, algorithm = synthetic.context("ippo", synthetic.spec("one choice"), settings, changed=without_cuts)
        assert not len(context.batch.cut)
        share = Share([stage.name for stage in algorithm.stages], (0, 1))
        learned.append(stages.run(algorithm, algorithms.implementation(algorithm), context, share).tensors)
    for name, array in learned[0].items():
        np.testing.assert_allclose(learned[1][name], array, rtol=0, atol=1e-8, err_msg=name)


def test_a_missing_library_is_named(shell):
    shell.uninstall("torch")
    shell.forget("marless.functions.algorithms.engines.torch_engine", "marless.functions.nn.torch_layers")
    engine._engine.cache_clear()
    with pytest.raises(
        MissingExtra, match=r"algorithm.engine=torch needs the package 'torch': pip install 'marless\[learner\]'"
    ):
        engine.engine_of(IppoConfig(engine="torch"))


def test_a_missing_gpu_is_named():
    if pytest.importorskip("torch").cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(BadRequest, match=r"algorithm.device=cuda: torch finds no GPU here"):
        engine.engine_of(IppoConfig(engine="torch", device="cuda"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param((), "native", marks=needs_kernels),
        (("algorithm.recurrent=true",), "numpy"),
        (("algorithm.network=gru",), "numpy"),
        (("algorithm.device=cuda",), "torch"),
        (("algorithm.network=cnn",), "torch"),
        (("algorithm.engine=numpy",), "numpy"),
        (("algorithm.engine=torch",), "torch"),
    ],
)
def test_run_has_fastest_engine_for_networks_and_device(settings, expected):
    assert load(None, settings).algorithm.engine == expected


def test_numpy_on_a_gpu_is_refused():
    with pytest.raises(ConfigError, match=r"numpy does not compute on cuda; set algorithm.engine=torch"):
        load(None, ["algorithm.engine=numpy", "algorithm.device=cuda"])


@needs_kernels
@pytest.mark.parametrize("library", ["numpy", "native", "torch"])
def test_gradients_with_overflowing_norm_are_error(library):
    """Each number is finite. The cap on the norm would make all of them 0."""
    network = Network((2, 1))
    tensors = recurrent.to_tensors(network, np.zeros(network.parameters, np.float32), "critic")
    huge, values = np.full((6, 2), 1e20, np.float32), np.ones(6, np.float32)
    minibatches = shuffled_minibatches(Independent(huge), np.random.default_rng(1), 1, 2)

    def descent():
        config = IppoConfig(engine=library)
        return engine.engine_of(config).descent(tensors, "critic", engine.OptimiserSettings(1e-2, 1e-5, 10.0))

    with np.errstate(over="ignore"), pytest.raises(NotFinite, match="the norm of a gradient overflows"):
        descent().learn(minibatches, ClippedValueLoss(values, values * 2, 0.2, 10.0))
    with np.errstate(over="ignore"), pytest.raises(NotFinite, match="the norm of a gradient overflows"):
        descent().apply(np.full(network.parameters, 3e19, np.float32))
