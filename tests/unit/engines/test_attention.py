"""Attention over entities: numpy against torch's derivatives, and the symmetry between equal entities."""

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.functions.algorithms import registry as algorithms
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.environments.entities.description import Entities, EntityBlock, columns_of
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent, torch_layers
from marless.functions.nn.batched_acting import batch_networks, single_agent_policy
from marless.functions.nn.entities.attention import attention_over, decode, encode, width_of_tokens, with_rest
from marless.functions.nn.shape import Network
from marless.testing.algorithms.conformance import check

# Two own numbers, three foods of two features that can be absent, and two mates of one feature. Three further numbers
# of the agent itself follow the description.
FOOD = EntityBlock("food", columns_of(3, (2, 1), (5, 1)), absent=(0.0, 0.0))
MATE = EntityBlock("mate", columns_of(2, (8, 1)))
ENTITIES, NAMED = (Entities.of(10, food, MATE) for food in (FOOD, replace(FOOD, first_action=2)))
NETWORK = Network((13, 32, 8, 4), front=attention_over(with_rest(ENTITIES, 13)))
# Two moves, the bias and a query of 16 numbers give scores of two moves and three foods.
NAMING = Network((13, 32, 8, 19), front=attention_over(with_rest(NAMED, 13)))
TEAM, NAMING_TEAM = (
    EnvSpec(("a", "b", "c"), (AgentClass("all", (0, 1, 2), 10, actions, entities=entities),), 5)
    for entities, actions in ((ENTITIES, 3), (NAMED, 5))
)
PPO = {"hidden": [8, 8], "epochs": 1, "num_minibatches": 2}
REPLAYED = {"hidden": [8, 8], "updates_per_round": 2, "batch_size": 8, "buffer_size": 42}


def made(dtype=np.float64, network=NETWORK):
    rng = np.random.default_rng(4)
    flat = recurrent.initialise(network, rng, 1.0) + 0.2 * rng.standard_normal(network.parameters)
    rows = rng.standard_normal((7, 13))
    rows[1, [2, 5]] = rows[2, [3, 6]] = rows[2, [4, 7]] = 0  # the first food of a row, and the others of the next
    return flat.astype(dtype), rows.astype(dtype)


@pytest.mark.parametrize("network", [NETWORK, NAMING])
def test_gradients_are_those_of_torch(network):
    flat, rows = made(network=network)
    weights, gradient = recurrent.views(network, flat), np.zeros_like(flat)
    slopes = np.random.default_rng(5).standard_normal((7, network.outputs))
    trace = weights.forward(rows)
    weights.backward(trace, slopes.copy(), recurrent.views(network, gradient))
    parameters = [[torch.tensor(array, requires_grad=True) for array in layer.arrays] for layer in weights.layers]
    inputs = torch.tensor(rows, requires_grad=True)
    outputs, _ = torch_layers.forward(list(zip(weights.kinds, parameters, strict=True)), inputs)
    outputs.backward(torch.tensor(slopes))
    np.testing.assert_allclose(trace.outputs, outputs.detach(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient, torch.cat([p.grad.ravel() for of in parameters for p in of]), atol=1e-12)
    by_input = weights.input_gradient(rows, slopes.copy())
    np.testing.assert_allclose(by_input, inputs.grad, rtol=1e-10, atol=1e-12)


def test_equal_entities_may_swap_and_others_may_not():
    flat, rows = made()
    weights = recurrent.views(NETWORK, flat)
    turned, crossed = rows.copy(), rows.copy()
    turned[:, [2, 3, 4, 5, 6, 7, 8, 9]] = rows[:, [4, 2, 3, 7, 5, 6, 9, 8]]
    crossed[:, [2, 3]] = rows[:, [3, 2]]  # one feature of two foods
    outputs = weights.forward(rows).outputs
    np.testing.assert_allclose(weights.forward(turned).outputs, outputs, atol=1e-12)
    assert np.abs(weights.forward(crossed).outputs - outputs).max() > 1e-3


def test_scores_swap_with_entities_they_name():
    flat, rows = made(network=NAMING)
    turned = rows.copy()
    turned[:, [2, 3, 4, 5, 6, 7]] = rows[:, [4, 2, 3, 7, 5, 6]]
    outputs, others = (recurrent.views(NAMING, flat).forward(each).outputs for each in (rows, turned))
    np.testing.assert_allclose(others, outputs[:, [0, 1, 4, 2, 3]], atol=1e-12)
    assert np.abs(others - outputs).max() > 0.1


def test_absent_entity_equals_entity_outside_network():
    flat, rows = made()
    food = EntityBlock("food", columns_of(1, (2, 1), (3, 1)), absent=(0.0, 0.0))
    fewer = Entities.of(6, food, EntityBlock("mate", columns_of(2, (4, 1))))
    rows[:, [3, 6, 4, 7]] = 0
    small = Network((9, 32, 8, 4), front=attention_over(with_rest(fewer, 9)))
    outputs = recurrent.views(small, flat).forward(rows[:, [0, 1, 2, 5, 8, 9, 10, 11, 12]]).outputs
    np.testing.assert_allclose(recurrent.views(NETWORK, flat).forward(rows).outputs, outputs, atol=1e-12)


def test_a_network_comes_back_from_its_tensors():
    flat, _ = made(np.float32)
    network, read = recurrent.from_tensors(recurrent.to_tensors(NETWORK, flat, "p"), "p")
    assert network == NETWORK and read.tobytes() == flat.tobytes()
    assert decode(encode(ENTITIES)) == ENTITIES
    with pytest.raises(ValueError, match=r"column 1 is missing\."):
        decode(encode(Entities((0, 0), ())))


@pytest.mark.parametrize(("hidden", "width"), [(1, 16), (16, 16), (17, 32), (64, 64)])
def test_tokens_have_whole_vectors_for_each_head(hidden, width):
    assert width_of_tokens(hidden) == width


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", "torch", "native"])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ippo", PPO),
        ("mappo", PPO),
        ("vdn", REPLAYED),
        ("qmix", REPLAYED),
        ("isac", REPLAYED),
        ("bc", PPO),
        ("pqn", PPO | {"layer_norm": False}),
    ],
)
def test_algorithms_keep_their_rules(name, settings, engine):
    settings = settings | {"network": "attention", "engine": engine}
    assert check(algorithms.algorithm(name), settings, [TEAM, NAMING_TEAM]) == ()


def initial(name, team, task=TEAM):
    spec = algorithms.algorithm(name)
    config = algorithms.configuration(spec, {**PPO, "network": "attention", "engine": "numpy"}).resolved(task)
    return algorithms.implementation(spec).initialise(task, team, config, 1, 0)


def test_a_critic_of_all_observations_attends_to_agents():
    def entities(name, task=TEAM):
        tensors = initial(name, Team(groups=(0, 0, 0), identity=True), task)
        return decode(tensors["critic/g00/entities"]) if "critic/g00/entities" in tensors else None

    assert entities("ippo") == with_rest(ENTITIES, 13)
    (agents,) = entities("mappo").blocks
    assert (agents.name, len(agents.columns), agents.features, entities("mappo").own) == ("agent", 3, 10, (30, 31, 32))
    assert entities("mappo", EnvSpec(TEAM.agents, TEAM.classes, 5, state_size=7)) is None


def test_identity_can_be_moved_between_policies():
    team = Team(groups=(0, 0, 0), identity=True)
    tensors = {name: array for name, array in initial("ippo", team).items() if name.startswith("policy/")}
    rows = np.random.default_rng(3).standard_normal((1, 1, 4, 10)).astype(np.float32)
    expected = batch_networks(TEAM, team, tensors, 0).outputs(np.repeat(rows, 3, axis=0), None)[0][1]
    for identity in (False, True):
        alone = single_agent_policy(tensors, TEAM, team, 1, identity)
        played = batch_networks(TEAM, Team(groups=(1, 1, 1), identity=identity), alone, 0)
        outputs = played.outputs(np.repeat(rows, 3, axis=0), None)[0][1]
        np.testing.assert_allclose(outputs, expected, rtol=1e-6, atol=1e-6)


def test_what_attention_does_not_take_is_named():
    plain = EnvSpec(("a",), (AgentClass("plain", (0,), 4, 2),), 5)
    with pytest.raises(BadRequest, match=r"attention takes observations with entities, and class plain describes none"):
        initial("ippo", Team(groups=(0,)), plain)
    with pytest.raises(ConfigError, match=r"attention has no hidden state; set algorithm.network=mlp"):
        load(None, ["algorithm.network=attention", "algorithm.recurrent=true"])
