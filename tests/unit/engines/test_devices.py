"""Rows go to the device of torch once, and a GPU learns the same weights as the processor."""

from types import SimpleNamespace

import numpy as np
import pytest
import synthetic
from engine_rounds import COMPARABLE, SETTINGS, require_alike, trained

from marless.functions.algorithms.engine import OptimiserSettings, engine_of
from marless.functions.algorithms.engines.torch_engine import ResidentSamples
from marless.functions.algorithms.group_inputs import observations
from marless.functions.algorithms.minibatches import Independent, Minibatches, shuffled_minibatches, training_samples
from marless.functions.algorithms.ppo.specs import IppoConfig
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.nn import recurrent
from marless.functions.nn.shape import Network
from marless.functions.nn.torch_weights import array_of

torch = pytest.importorskip("torch")
NAMES = ("a", "b", "c")
IMAGES = EnvSpec(NAMES, (AgentClass("all", (0, 1, 2), 50, 3, observation_shape=(5, 5, 2)),), 5)
ENTITIES = EnvSpec(NAMES, (AgentClass("all", (0, 1, 2), 12, 3, observation_shape=(4, 3)),), 5)
NETWORKS = {"cnn": IMAGES, "attention": ENTITIES}


@pytest.fixture
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")


def learning(**settings):
    network = Network((2, 4, 3))
    tensors = recurrent.to_tensors(network, recurrent.initialise(network, np.random.default_rng(0), 1.0), "policy")
    config = IppoConfig(engine="torch", **settings)
    return engine_of(config).descent(tensors, "policy", OptimiserSettings(1e-2, 1e-5, 10.0))


def squares(outputs, log_std, rows):
    return SimpleNamespace(grad_output=outputs, grad_log_std=None)


class Lent(Independent):
    """Rows that count how often all of them are asked for, and give no minibatch from the processor's memory."""

    asked = 0

    def network_inputs(self):
        type(self).asked += 1
        return super().network_inputs()

    def part(self, pieces):
        raise AssertionError("picked on the processor")


def test_rows_go_to_device_once_for_any_passes():
    samples, descent = Lent(np.random.default_rng(1).standard_normal((40, 2)).astype(np.float32)), learning()
    steps = list(descent.learn(shuffled_minibatches(samples, np.random.default_rng(2), epochs=3, count=4), squares))
    assert len(steps) == 12 and Lent.asked == 1
    assert steps[-1].norm < steps[0].norm


@pytest.mark.parametrize("remembers", [False, True])
def test_device_minibatch_equals_processor_minibatch(remembers):
    settings = {"hidden": [6], "recurrent": remembers, "engine": "torch"}
    context, _ = synthetic.context("ippo", synthetic.spec("one choice"), settings)
    weights = engine_of(context.config).weights(context.tensors, "policy/g00")
    pieces = training_samples(context, 0, weights, lambda agent: observations(context, agent), 4)
    minibatches = shuffled_minibatches(pieces, np.random.default_rng(1), epochs=2, count=3)
    orders = list(minibatches.orders)
    found = [part for order in orders for part in ResidentSamples(pieces, weights).parts(order)]
    expected = list(Minibatches(pieces, orders))
    assert len(found) == len(expected) == 6
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own.places.rows, other.rows)
        for one, array in zip(own.inputs, (other.inputs, other.starts, other.first), strict=True):
            assert (one is None) == (array is None)
            if array is not None:
                assert array_of(one).dtype == array.dtype and array_of(one).tobytes() == array.tobytes()


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_gpu_round_gives_processor_weights(name, remembers):
    settings = {"engine": "torch", "recurrent": remembers, **COMPARABLE.get(name, {})}
    plain, other = (trained(name, np.float32, device=device, **settings) for device in ("cpu", "cuda"))
    require_alike(plain, other, 1e-4)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", ["ippo", "qmix"])
def test_gpu_round_of_other_network_gives_processor_weights(name, network):
    settings = {"engine": "torch", "network": network}
    plain, other = (
        trained(name, np.float32, NETWORKS[network], device=device, **settings) for device in ("cpu", "cuda")
    )
    require_alike(plain, other, 1e-4)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("remembers", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_gpu_round_repeats_its_bytes(name, remembers):
    _equal(*(trained(name, np.float32, engine="torch", device="cuda", recurrent=remembers) for _ in range(2)))


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("network", NETWORKS)
def test_gpu_round_of_other_network_repeats_its_bytes(network):
    settings = {"engine": "torch", "device": "cuda", "network": network}
    _equal(*(trained("ippo", np.float32, NETWORKS[network], **settings) for _ in range(2)))


def _equal(once, again):
    assert once.metrics == again.metrics and once.tensors.keys() == again.tensors.keys()
    for key, array in once.tensors.items():
        assert again.tensors[key].tobytes() == array.tobytes(), key
