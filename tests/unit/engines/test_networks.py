"""Networks of factories: trained by torch, acted by ONNX Runtime, with the rules of all others."""

import sys

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from marless.coordinator.config.checks import NETWORKS
from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.coordinator.core.opponents import takes_identity
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.engine import engine_of
from marless.functions.algorithms.engines.torch_engine import compute_alike
from marless.functions.algorithms.minibatches import Minibatch
from marless.functions.algorithms.new_networks import NetworkPart, new_network
from marless.functions.algorithms.ppo.gradient_sums import Term
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.errors import BadRequest, MissingExtra
from marless.functions.isolation.process_guard import ProcessGuard
from marless.functions.messages.team import Team
from marless.functions.nn import onnx_acting
from marless.functions.nn.shape import GRAPH, Network, NetworkShape
from marless.functions.nn.torch_modules import BUILT_IN, build
from marless.functions.policies import Policy
from marless.testing.algorithms.conformance import check
from marless.testing.algorithms.random_tasks import RandomTask

NAMES = ("a", "b", "c")
IMAGES = EnvSpec(NAMES, (AgentClass("all", (0, 1, 2), 50, 3, observation_shape=(5, 5, 2)),), 5)
ENTITIES = EnvSpec(NAMES, (AgentClass("all", (0, 1, 2), 12, 3, observation_shape=(4, 3)),), 5)
# An image, and three more numbers.
BESIDE = EnvSpec(NAMES, (AgentClass("all", (0, 1, 2), 53, 3, observation_shape=(5, 5, 2)),), 5)
NUMBERS = EnvSpec(
    NAMES, (AgentClass("all", (0, 1, 2), 12, 2, low=(-1.0, 0.0), high=(1.0, 5.0), observation_shape=(4, 3)),), 5
)
TASKS = {"cnn": IMAGES, "attention": ENTITIES, "my_networks:wide": ENTITIES}
PPO = {"hidden": [8, 8], "epochs": 1, "num_minibatches": 2}
REPLAYED = {"hidden": [8, 8], "updates_per_round": 2, "batch_size": 8, "buffer_size": 42}
TOGETHER, APART = Team(groups=(0, 0, 0), identity=True), Team(groups=(0, 1, 2))

MODULE = """
import torch

class Wide(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.first = torch.nn.Linear(shape.width + shape.rest, 7)
        self.last = torch.nn.Linear(7, shape.outputs)

    def forward(self, observation, rest):
        rows = observation.reshape(observation.shape[0], -1)
        return self.last(torch.tanh(self.first(torch.cat([rows, rest], dim=1))))

class Wrong(Wide):
    def forward(self, observation, rest):
        return super().forward(observation, rest)[:, :1]

class Cold(Wide):
    def forward(self, observation, rest):
        return torch.special.i0e(super().forward(observation, rest))

class Rigid(Wide):
    def forward(self, observation, rest):
        return super().forward(observation.reshape(len(observation), -1), rest)

wide, wrong, cold, rigid = Wide, Wrong, Cold, Rigid

def counted(shape):
    return torch.nn.BatchNorm1d(shape.width)

def nothing(shape) -> torch.nn.Module:
    return 3

def silent(shape):
    raise SystemExit("called")

def broken(shape) -> torch.nn.Module:
    raise RuntimeError("no such width")
"""


@pytest.fixture(autouse=True)
def my_networks(tmp_path, shell):
    (tmp_path / "my_networks.py").write_text(MODULE)
    shell.import_from(tmp_path)
    yield
    sys.modules.pop("my_networks", None)


def configured(name="ippo", network="cnn", **settings):
    spec = algorithms.algorithm(name)
    own = PPO if name == "ippo" else REPLAYED
    return algorithms.configuration(spec, {**own, "engine": "torch", "network": network, **settings})


def initial(network, team, task=None):
    code = algorithms.implementation(algorithms.algorithm("ippo"))
    config, task, tensors = configured(network=network).resolved(task or TASKS[network]), task or TASKS[network], {}
    for group in sorted(set(team.groups)):
        tensors |= code.initialise(task, team, config, 1, group)
    return config, task, tensors


@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "task", "settings"),
    [
        ("ippo", IMAGES, PPO | {"network": "cnn"}),
        ("ippo", BESIDE, PPO | {"network": "cnn"}),
        ("mappo", ENTITIES, PPO | {"network": "attention"}),
        ("qmix", ENTITIES, REPLAYED | {"network": "attention"}),
        ("maddpg", NUMBERS, REPLAYED | {"network": "my_networks:wide", "noise_start": 0.1}),
        ("masac", NUMBERS, REPLAYED | {"network": "my_networks:wide"}),
    ],
)
def test_algorithms_keep_their_rules_with_networks_of_factories(name, task, settings):
    assert check(algorithms.algorithm(name), settings | {"engine": "torch"}, [task]) == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "task", "team"),
    [
        ("cnn", IMAGES, TOGETHER),
        ("cnn", BESIDE, APART),
        ("attention", ENTITIES, APART),
        ("my_networks:wide", ENTITIES, TOGETHER),
        pytest.param("cnn", IMAGES, APART, marks=pytest.mark.conformance),
        pytest.param("cnn", BESIDE, TOGETHER, marks=pytest.mark.conformance),
        pytest.param("attention", ENTITIES, TOGETHER, marks=pytest.mark.conformance),
        pytest.param("my_networks:wide", ENTITIES, APART, marks=pytest.mark.conformance),
    ],
)
def test_actors_compute_what_learners_do(network, task, team):
    config, task, tensors = initial(network, team, task)
    policy = Policy(task, team, {key: array for key, array in tensors.items() if key.startswith("policy/")})
    seen = RandomTask(task, 6).reset(np.random.default_rng(5))
    outputs, _ = policy.outputs(seen)
    for agent, group in enumerate(team.groups):
        weights = engine_of(config).weights(tensors, f"policy/g{group:02d}")
        rows = seen.values[0][:, agent]
        if team.identity:
            rows = np.concatenate([rows, np.tile(np.eye(3, dtype=np.float32)[agent], (6, 1))], axis=1)
        expected = weights.forward(rows).outputs
        np.testing.assert_allclose(outputs[0][agent], expected, rtol=1e-5, atol=1e-5)
    blocks, _ = policy.outputs(seen, blocks=3)
    alone = [policy.outputs(part(seen, block))[0][0] for block in range(3)]
    assert blocks[0].tobytes() == np.concatenate(alone, axis=1).tobytes()


def part(seen, block):
    rows = slice(2 * block, 2 * block + 2)
    return seen.__class__(tuple(values[rows] for values in seen.values), seen.alive[rows])


def test_an_absent_entity_changes_nothing():
    config, _, tensors = initial("attention", APART)
    weights, rng = engine_of(config).weights(tensors, "policy/g00"), np.random.default_rng(2)
    rows = rng.standard_normal((5, 4, 3)).astype(np.float32)
    rows[:, 2] = 0
    turned = rows[:, [0, 3, 1, 2]]
    one, other = (weights.forward(found.reshape(5, -1)).outputs for found in (rows, turned))
    np.testing.assert_allclose(one, other, atol=1e-6)
    rows[:, 3] = 0
    fewer = weights.forward(rows.reshape(5, -1))
    assert np.abs(one - fewer.outputs).max() > 1e-4


def test_entity_policy_acts_with_more_entities():
    _, _, tensors = initial("attention", APART)
    larger = EnvSpec(NAMES, (AgentClass("all", (0, 1, 2), 18, 3, observation_shape=(6, 3)),), 5)
    policy = Policy(larger, APART, {key: array for key, array in tensors.items() if key.startswith("policy/")})
    outputs, _ = policy.outputs(RandomTask(larger, 4).reset(np.random.default_rng(5)))
    assert outputs[0].shape == (3, 4, 3)
    with pytest.raises(BadRequest, match="class all of the task describes no entities, and the policy knows itself"):
        Policy(IMAGES, APART, {key: array for key, array in tensors.items() if key.startswith("policy/")})


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("my_networks:missing", "cannot be imported: module 'my_networks' has no attribute 'missing'"),
        ("nowhere:wide", "cannot be imported: No module named 'nowhere'"),
        ("my_networks:nothing", "makes a int, not a torch.nn.Module"),
        ("my_networks:broken", "RuntimeError: no such width"),
        ("my_networks:silent", "nothing shows that it makes a torch.nn.Module, so it was not called"),
        ("my_networks:counted", "keeps num_batches_tracked beside its parameters"),
        ("my_networks:cold", r"cannot be exported for actors as forward\(observation, rest\): .*i0e"),
        ("my_networks:rigid", r"it would take 2 rows and no other number of them; take that number from a shape"),
    ],
)
def test_a_factory_that_will_not_do_is_named(network, message):
    with pytest.raises(BadRequest, match=message):
        initial(network, APART, ENTITIES)


def test_networks_of_earlier_attention_module_are_named():
    shape = NetworkShape(factory="attention", observation=(4, 3), rest=0, outputs=2, hidden=(8,), output_gain=1.0)
    with pytest.raises(BadRequest, match=r"attention is built in now.*Start a new run"):
        build(shape)


def test_a_module_of_another_width_is_named():
    config, _, tensors = initial("my_networks:wrong", APART, ENTITIES)
    with pytest.raises(BadRequest, match=r"my_networks:wrong gives \[5, 1\] for 5 rows, and must give \[5, 3\]"):
        engine_of(config).weights(tensors, "policy/g00").forward(np.ones((5, 12), np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("network", TASKS)
def test_batch_without_rows_has_zero_gradient(network):
    """A group has no living agent, or its episodes were not cut off."""
    config, task, tensors = initial(network, TOGETHER)
    rows = np.zeros((0, task.classes[0].observation_size + 3), np.float32)
    loss_gradient = engine_of(config).loss_gradient(tensors, "policy/g00")
    term, gradient = loss_gradient.of(Minibatch(np.arange(0), rows), lambda outputs, log_std, rows: Term(outputs))
    assert term.grad_output.shape == (0, 3)
    assert gradient.size and not gradient.any()


def test_torch_is_always_single_threaded_and_deterministic():
    torch.set_num_threads(2)
    torch.set_deterministic_debug_mode("default")
    compute_alike()
    assert torch.get_num_threads() == 1
    assert torch.get_deterministic_debug_mode() == 2  # "error"


def test_vector_critic_is_perceptron_and_others_of_factory():
    config = load(None, ["algorithm.network=cnn", "algorithm.hidden=[8]"]).algorithm

    def names(part):
        width = int(np.prod(part.observation))
        tensors = new_network(config, part, Network((width, 8, 1)), 0, np.random.default_rng(0))
        return {name.removeprefix("critic/g00/").partition("/")[0] for name in tensors if name.startswith("critic/")}

    assert names(NetworkPart("critic", (7,), 1.0)) == {"w0", "b0", "w1", "b1"}
    assert "w0" not in names(NetworkPart("critic", (5, 5, 2), 1.0)) and "net" in names(
        NetworkPart("critic", (5, 5, 2), 1.0)
    )


def test_network_factory_named_in_bytes_is_not_imported():
    config, _, tensors = initial("my_networks:wide", APART)
    named = NetworkShape.decode(tensors["policy/g00/shape"])
    tensors["policy/g00/shape"] = replace(named, factory="my_networks:other").encode()
    with pytest.raises(
        BadRequest, match=r"is a network of my_networks:other, and algorithm.network is my_networks:wide"
    ):
        engine_of(config).weights(tensors, "policy/g00")


def test_a_factory_leaves_the_generator_of_torch_alone():
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    initial("cnn", APART)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(("network", "task"), [("cnn", ENTITIES), ("attention", IMAGES)])
def test_spaces_unsupported_by_network_are_named(network, task):
    with pytest.raises(BadRequest, match=f"algorithm.network={network} takes .* use mlp"):
        initial(network, APART, task)


def test_a_damaged_graph_is_named():
    _, task, tensors = initial("cnn", APART)
    broken = {key: array for key, array in tensors.items() if key.startswith("policy/")}
    broken[f"policy/g01/{GRAPH}"] = np.frombuffer(b"no graph", np.uint8)
    with pytest.raises(BadRequest, match=r"a policy's graph cannot be loaded: "):
        Policy(task, APART, broken)


def test_a_missing_runtime_is_named(shell):
    _, task, tensors = initial("cnn", APART)
    shell.uninstall("onnxruntime")
    onnx_acting._graph.cache_clear()
    with pytest.raises(MissingExtra, match=r"acts by ONNX Runtime: pip install 'marless\[networks\]'"):
        Policy(task, APART, {key: array for key, array in tensors.items() if key.startswith("policy/")})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("algorithm.network=cn",), "'cn' is no network; did you mean cnn?"),
        (("algorithm.network=cnn", "algorithm.engine=numpy"), "numpy does not compute cnn; set algorithm.engine=torch"),
        (("algorithm.network=cnn", "algorithm.recurrent=true"), "cnn has no hidden state"),
        (("algorithm.network=cnn", "algorithm.layer_norm=true"), "cnn has norms of its own, or none; set algorithm.n"),
        (("algorithm.network=cnn", "algorithm.normalise_observations=true"), "cnn takes observations as they are"),
        (("algorithm.name=qmix", "algorithm.normalise_observations=true"), "is a key of ippo, mappo and happo"),
        (("algorithm.network=cnn", "scaling.rule=paper"), "needs the curvature of the loss, which only mlp has"),
    ],
)
def test_settings_that_exclude_each_other_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        load(None, settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((), False),
        (("sharing.rule=all",), True),
        (("sharing.rule=all", "sharing.identity=false"), False),
        (("sharing.identity=true",), True),
    ],
)
def test_identity_input_follows_rule_unless_set(settings, expected):
    assert takes_identity(load(None, settings).sharing) is expected


def test_documented_networks_are_the_available_networks():
    assert ("mlp", "gru", *BUILT_IN, "attention") == NETWORKS


def test_a_factory_is_computed_by_torch():
    assert load(None, ["algorithm.network=gru"]) == load(None, ["algorithm.recurrent=true"])
    assert load(None, ["algorithm.network=cnn"]).algorithm.engine == "torch"


def test_a_shape_comes_back_from_its_tensor():
    shape = NetworkShape(factory="cnn", observation=(5, 5, 2), rest=3, outputs=4, hidden=(8,), output_gain=0.01)
    assert NetworkShape.decode(shape.encode()) == shape
    assert shape.width == 50


@pytest.mark.parametrize(("sizes", "says"), [((3, 12, 10), True), ((12, 10, 3), False), ((3, 3, 12), False)])
def test_an_image_whose_channels_come_first_is_named(sizes, says):
    with ProcessGuard("cnn") as guard:
        BUILT_IN["cnn"](NetworkShape(factory="cnn", observation=sizes, rest=0, outputs=2, hidden=(8,), output_gain=1.0))
    assert (
        any(
            f"[{sizes[0]}, {sizes[1]}, {sizes[2]}] as images [height, width, channels]" in line
            for line in guard.remarks()
        )
        == says
    )
