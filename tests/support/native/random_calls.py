"""Random calls of a library of kernels, with numbers that round, overflow, vanish or are none."""

from ctypes import byref

import numpy as np
from fuzzed_arrays import SPECIAL

from marless.functions.native.interface import AdamFields, PassesFields, PolicyRowsFields, ValueRowsFields, WorldFields
from marless.functions.native.known_answers import NetworkMemory, Shape, parameters

WIDTHS = (1, 2, 5, 8, 15, 16, 17, 31, 32, 33, 48, 64, 70)


def answers(library, seed):
    rng = np.random.default_rng(seed)
    return [elementary, physics, acting, training, training][seed % 5](library, rng)


def numbers(rng, *shape):
    array = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 2)).astype(np.float32)
    share = rng.choice([0, 0, 0.02])
    return np.where(rng.random(shape) < share, rng.choice(SPECIAL, shape), array)


def address(array):
    return array.ctypes.data


def elementary(library, rng):
    array = rng.integers(2**32, size=rng.integers(1, 200), dtype=np.uint32).view(np.float32).copy()
    library.elementwise(int(rng.integers(3)), address(array), array.size)
    doubles = rng.uniform(-700, 700, 50)
    library.doubles_exp(address(doubles), doubles.size)
    return [array, doubles]


def physics(library, rng):
    agents, others, envs = (int(rng.integers(1, 5)), int(rng.integers(0, 4)), int(rng.integers(1, 30)))
    rows = agents + others
    pairs = [(a, b) for a in range(agents) for b in range(a + 1, rows)]
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T.copy()
    position, velocity, force = (rng.standard_normal((count, 2, envs)) for count in (rows, agents, agents))
    relative, squares = np.zeros((2, agents, rows, 2, envs))
    distance, most = np.ones((agents, rows, envs)), rng.choice([np.inf, 0.5, 1.3], agents)
    reach, strength = rng.uniform(0.1, 1, len(pairs)), np.zeros(envs)
    arrays = (position, velocity, force, relative, squares, distance, most, reach, first, second, strength)
    fields = WorldFields(agents, rows, envs, 0, agents, len(pairs), *map(address, arrays))
    for _ in range(3):
        library.world_advance(byref(fields))
    return [*arrays[:6]]


def drawn_shape(rng):
    widths = tuple(int(width) for width in rng.choice(WIDTHS, rng.integers(2, 5)))
    kind = int(rng.integers(2)), bool(rng.integers(2))
    return attentive(rng, widths[1:], *kind) if rng.integers(3) == 0 else Shape(widths, *kind)


def attentive(rng, widths, *kind):
    """A network with attention over entities of two types, so that tokens fill vectors and leave some over."""
    own, *features = (int(number) for number in rng.integers(1, 5, 3))
    first, second = (int(number) for number in rng.integers(0, 20, 2))
    starts = [own + features[0] * place for place in range(first)]
    tokens = [(start, features[0], own + 1, own + 1 + sum(features), -1) for start in starts]
    size = own + features[0] * first
    starts = [size + features[1] * place for place in range(second)]
    tokens += [(start, features[1], own + 1 + features[0], own + 2 + sum(features), 0) for start in starts]
    inputs = size + features[1] * second
    width = 2 * int(rng.choice([16, 32, 48, 64]))
    return Shape((inputs, width, *widths), *kind, ((0, own, 0, own, -1), *tokens))


def acting(library, rng):
    network = drawn_shape(rng)
    widths, rows, flat = network.widths, int(rng.integers(1, 120)), numbers(rng, parameters(network))
    seen, uniforms = numbers(rng, rows, widths[0]), rng.random(rows, np.float32)
    outputs, gradient = np.zeros((rows, widths[-1]), np.float32), np.zeros_like(flat)
    choices, log_p = np.zeros(rows, np.int64), np.zeros(rows, np.float32)
    planes, room = np.zeros((widths[-1], 2, 16), np.float32), NetworkMemory(library, network, rows, True)
    library.network_forward(room.fields, address(flat), address(seen), rows, address(outputs))
    places = map(address, (planes, choices, log_p))
    library.choices_draw(address(outputs), address(uniforms), rows, widths[-1], *places)
    slopes = numbers(rng, rows, widths[-1])
    library.network_backward(room.fields, address(slopes), rows, address(gradient))
    return [outputs, choices, log_p, gradient]


def training(library, rng):
    network, is_policy = drawn_shape(rng), bool(rng.integers(2))
    widths = network.widths if is_policy else (*network.widths[:-1], 1)
    network = network._replace(widths=widths)
    rows, size = int(rng.integers(2, 120)), parameters(network)
    vectors = [numbers(rng, size) / 3, *np.zeros((3, size), np.float32)]
    bounds = np.unique([0, *rng.integers(1, rows, 3), rows])
    metrics, losses, norms = np.zeros((3, rows), np.float32), np.zeros(len(bounds) - 1), np.zeros(len(bounds) - 1)
    inputs, order, first, second = numbers(rng, rows, widths[0]), rng.permutation(rows), *numbers(rng, 2, rows)
    actions, legal = rng.integers(widths[-1], size=rows), (rng.random((rows, widths[-1])) < 0.8)
    adam = AdamFields(*map(address, vectors), size, int(rng.integers(1000)), 1e-2, 1e-5, float(rng.choice([0.5, 10])))
    passes = PassesFields(
        *map(address, (inputs, order, bounds)), len(bounds) - 1, *map(address, (metrics, losses, norms))
    )
    policy = PolicyRowsFields(*map(address, (actions, first, second, legal)), 0.2, 0.01)
    critic = ValueRowsFields(address(first), address(second), 0.2, 1.0)
    room = NetworkMemory(library, network, rows, True)
    both = (byref(policy), None) if is_policy else (None, byref(critic))
    library.network_train(room.fields, byref(adam), byref(passes), *both)
    return [*vectors, metrics, losses, norms]
