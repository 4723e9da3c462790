"""Actors in C act like numpy, with log-probabilities that the learner's loss repeats to the last bit."""

import numpy as np
import pytest
from built_kernels import needs_kernels
from described_entities import described
from native_rollouts import MPE, digest, rollout

from marless.functions.environments.base import AgentClass, EnvSpec, Observation
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent
from marless.functions.nn.discrete import OneChoice, draw
from marless.functions.nn.entities.attention import attention_over, with_rest
from marless.functions.nn.layers import LayerNorm, Relu, Tanh
from marless.functions.nn.losses import ClippedPolicyLoss
from marless.functions.nn.native.acting import NativeChoice, NativeNetworks
from marless.functions.nn.native.calls import NativeOptimiser, NativePerceptron
from marless.functions.nn.native.losses import native_loss
from marless.functions.nn.normaliser import SEEN
from marless.functions.nn.shape import Network
from marless.functions.policies import Policy, draws

pytestmark = needs_kernels

# One own number, and entities of one and of three numbers.
SEEN_ENTITIES = described(1, (2, 1, True), (1, 3, False))
CLASSES = tuple(AgentClass(name, agents, 6, 5, entities=SEEN_ENTITIES) for name, agents in (("x", (0, 2)), ("y", (1,))))
SPEC = EnvSpec(("a", "b", "c"), CLASSES, horizon=1)
ATTENTIVE = Network((9, 32, 16, 5), front=attention_over(with_rest(SEEN_ENTITIES, 9)))
# Of `rollout`, everywhere.
HASHES = {
    "mpe/simple": "5156ede26760bba6",
    "mpe/simple_adversary": "651c04eaf88ab2f2",
    "mpe/simple_crypto": "f9cc842e60752173",
    "mpe/simple_push": "67ca67f45670279c",
    "mpe/simple_reference": "8ae68c9203f0fc9a",
    "mpe/simple_speaker_listener": "c4c696f8553adcf3",
    "mpe/simple_spread": "613f5e1ffb099d78",
    "mpe/simple_tag": "3fb2c3cf23475e7f",
    "mpe/simple_world_comm": "92df817ac9704e9c",
}


def policies(network, rng, normalises=False, precision=np.float32):
    """Tensors of a network for each agent. It takes the agents' one-hots."""
    tensors = {}
    for group in range(3):
        prefix = f"policy/g{group:02d}"
        flat = (rng.standard_normal(network.parameters) / 2).astype(precision)
        tensors |= recurrent.to_tensors(network, flat, prefix)
        if normalises:
            tensors[f"{prefix}/{SEEN}"] = np.stack([np.full(6, 9.0), *rng.random((2, 6))])
    return tensors


def seen(rng, rows):
    values = tuple(rng.standard_normal((rows, len(kind.agents), 6), np.float32) for kind in SPEC.classes)
    return Observation(values, np.ones((rows, 3), np.bool_))


def acting(tensors, kernels):
    return Policy(SPEC, Team(groups=(0, 1, 2), identity=True, kernels=kernels), tensors)


@pytest.mark.parametrize("rows", [1, 7, 97, 300])
@pytest.mark.parametrize(
    ("network", "normalises"),
    [
        (Network((9, 64, 64, 5), activation=Tanh), False),
        (Network((9, 33, 5), activation=Relu, norm=LayerNorm), True),
        (Network((9, 16, 16, 5), norm=LayerNorm), False),
        (ATTENTIVE, False),
        (ATTENTIVE, True),
    ],
)
def test_outputs_and_actions_are_those_of_numpy(network, normalises, rows):
    rng = np.random.default_rng(rows)
    tensors, observation = policies(network, rng, normalises), seen(rng, rows)
    plain, native = (acting(tensors, kernels) for kernels in (False, True))
    for outputs, expected in zip(native.logits(observation), plain.logits(observation), strict=True):
        np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    for ours, numpys in zip(native.greedy(observation), plain.greedy(observation), strict=True):
        np.testing.assert_array_equal(ours, numpys)
    noise = tuple(block[0] for block in draws(SPEC, 1, rows, rng))
    ours, numpys = native.sample(observation, noise), plain.sample(observation, noise)
    for index in range(2):
        np.testing.assert_array_equal(ours.actions[index], numpys.actions[index])
        assert ours.actions[index].dtype == numpys.actions[index].dtype
        np.testing.assert_allclose(ours.log_probability[index], numpys.log_probability[index], rtol=1e-4, atol=1e-5)


def test_rows_are_independent_of_blocks_and_agents():
    rng = np.random.default_rng(2)
    tensors, observation = policies(Network((9, 64, 64, 5)), rng), seen(rng, 120)
    policy = acting(tensors, True)
    whole = policy.logits(observation)
    for blocks in (2, 40, 120):
        for one, other in zip(whole, policy.logits(observation, blocks), strict=True):
            np.testing.assert_array_equal(one, other)
    alone = EnvSpec(("c",), (AgentClass("x", (0,), 6, 5),), horizon=1)
    one_hot = tensors["policy/g02/w0"][6:]
    network = {name.replace("g02", "g00"): array for name, array in tensors.items() if "g02" in name}
    network |= {"policy/g00/w0": network["policy/g00/w0"][:6], "policy/g00/b0": network["policy/g00/b0"] + one_hot[2]}
    part = Observation((observation.values[0][5:6, 1:],), np.ones((1, 1), np.bool_))
    outputs = Policy(alone, Team(groups=(0,), kernels=True), network).logits(part)[0]
    np.testing.assert_array_equal(outputs[0, 0], whole[0][1, 5])


def test_memory_other_precisions_and_several_numbers_are_numpys():
    rng = np.random.default_rng(3)
    observation = seen(rng, 5)
    noise = tuple(block[0] for block in draws(SPEC, 1, 5, rng))
    for network, precision in ((Network((9, 8, 5), recurrent=True), np.float32), (Network((9, 8, 5)), np.float64)):
        tensors = policies(network, np.random.default_rng(4), precision=precision)
        plain, native = (acting(tensors, kernels) for kernels in (False, True))
        for one, other in zip(native.logits(observation), plain.logits(observation), strict=True):
            np.testing.assert_array_equal(one, other)
        ours, numpys = native.sample(observation, noise), plain.sample(observation, noise)
        for one, other in zip(ours.log_probability, numpys.log_probability, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("actions", [1, 2, 5, 50])
def test_choice_is_drawn_like_numpy_and_legal(actions):
    rng = np.random.default_rng(actions)
    logits = 3 * rng.standard_normal((3, 37, actions), np.float32)
    legal = rng.random(logits.shape) < 0.6
    legal[..., 0] |= ~legal.any(axis=-1)
    logits[~legal] = -1e9
    highest = np.nextafter(np.float32(1), np.float32(0))
    for uniform in (rng.random((3, 37), np.float32), np.zeros((3, 37), np.float32), np.full((3, 37), highest)):
        chosen, log_p = NativeChoice(actions).draw(logits, None, uniform)
        expected, expected_log_p = draw(logits, uniform)
        np.testing.assert_array_equal(chosen, expected)
        np.testing.assert_allclose(log_p, expected_log_p, rtol=1e-5, atol=1e-6)
        assert np.take_along_axis(legal, chosen[..., None], axis=-1).all()


def test_nan_choices_are_first_and_not_finite():
    logits = np.full((1, 2, 3), np.nan, np.float32)
    chosen, log_p = NativeChoice(3).draw(logits, None, np.full((1, 2), 0.7, np.float32))
    assert not chosen.any() and np.isnan(log_p).all()


@pytest.mark.parametrize(
    "network", [Network((6, 64, 64, 5)), Network((6, 32, 64, 5), front=attention_over(SEEN_ENTITIES))]
)
def test_learner_repeats_log_probabilities_of_actor_exactly(network):
    rng = np.random.default_rng(6)
    flat = (rng.standard_normal(network.parameters) / 3).astype(np.float32)
    inputs = rng.standard_normal((203, 6), np.float32)
    outputs, _ = NativeNetworks(network, [flat[None]], [], None).outputs(inputs[None, None], None)
    chosen, log_p = NativeChoice(5).draw(outputs[:, 0], None, rng.random((1, 203), np.float32))
    loss = ClippedPolicyLoss(OneChoice(5), chosen[0], log_p[0], np.ones(203, np.float32), None, 0.2, 0.01)
    optimiser = NativeOptimiser(flat, np.zeros_like(flat), np.zeros_like(flat), 0, 1e-3, 1e-5, 1.0)
    trained = NativePerceptron(network).train(optimiser, inputs, np.arange(203), [0, 203], native_loss(loss))
    assert not trained.metrics[2].any()  # the divergence, 0 where the ratio is 1


@pytest.mark.parametrize("name", MPE)
def test_a_rollout_has_one_hash_on_every_machine(name):
    assert digest(rollout(name)) == HASHES[name]
