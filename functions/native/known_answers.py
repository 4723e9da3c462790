"""Answers that every right build of the kernels gives, to the last bit.

IEEE 754 has one result for each operation of the kernels, and the sources fix their order. So the answers are known
without any compiler: `tests/unit/native/test_known_answers.py` computes them by numpy and exact fractions. A compiler
with fast floats (contracted, reordered, approximated, without NaN or subnormal numbers) gives other answers.

The answers of one kind are recorded as a sum of all their bytes. Inputs are read off a stream of SHAKE-256.
"""

import hashlib
import itertools
import math
from collections.abc import Callable, Iterator
from ctypes import CDLL, addressof, byref, create_string_buffer
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.native import interface

Array = NDArray[Any]
Answers = list[Array]
Samples = dict[str, Array]


class Shape(NamedTuple):
    """A network's widths, activation (`enum Activation` of kernels.h), and whether hidden layers have norms.

    If it has `tokens` (`Token` of kernels.h), the first layer is attention over them. Inputs have the opposite order,
    and all numbers of an absent token are ABSENT. Actions name `aims[1]` tokens from the token `aims[0]` on.
    """

    widths: tuple[int, ...]
    activation: int
    has_norms: bool
    tokens: tuple[tuple[int, ...], ...] = ()
    aims: tuple[int, int] = (0, 0)

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.widths[-1] + (self.aims[1] - self.width - 1 if self.aims[1] else 0)

    @property
    def width(self) -> int:
        """The width of tokens."""
        return self.widths[1] // 2

    @property
    def embedding(self) -> int:
        """The rows of weights and biases of tokens."""
        return max((bias for *_, bias, _ in self.tokens), default=0) + 1


TANH, RELU = range(2)
HEADS = 2
ROWS = 81
BOUNDS = np.array([0, 19, 41, 55, 70, 81])
"""Sizes of minibatches: their rows fill tiles of six, and leave one to five over."""
WIDE_BOUNDS = np.array([0, 76, 81])
POLICY, CRITIC = Shape((7, 72, 56, 17), TANH, True), Shape((5, 33, 1), RELU, False)
ACTING = Shape((6, 40, 18), RELU, False)
"""Widths that fill vectors of every number, and leave halves over. Choices are among 17 and 18."""
ABSENT = 0.25
ATTENTIVE = Shape((7, 96, 20, 5), TANH, True, ((0, 1, 0, 1, -1), (1, 2, 2, 6, 0), (3, 2, 2, 6, 0), (5, 2, 4, 7, -1)))
SEEING = Shape((21, 32, 1), RELU, False, ((0, 3, 0, 3, -1), *((place, 2, 4, 6, 0) for place in range(3, 21, 2))))
SCORING = ATTENTIVE._replace(widths=(7, 96, 20, 52), aims=(1, 2))
"""Of four tokens and of ten: their queries leave over half of eight lanes, and most of sixteen."""
AGENTS, BODIES, ENVS, STEPS = 3, 5, 21, 4
FIRST, SECOND = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 4])
MOST_SPEED, REACH = np.array([np.inf, 1.0, 1.3]), np.array([0.3, 0.3, 0.15, 0.25])


def drawn(name: str, *shape: int) -> Array:
    """Numbers from -1 to 1, in single precision."""
    words = np.frombuffer(hashlib.shake_256(name.encode()).digest(4 * math.prod(shape)), "<i4")
    return (words * 2.0**-31).astype(np.float32).reshape(shape)


def special() -> Array:
    """Numbers that overflow, vanish, have subnormal results or are none, and some of every size."""
    some = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1.0,
        -1.0,
        88.7,
        89.5,
        -87.5,
        -103.5,
        -104.5,
        1e-45,
        3e-39,
        1.2e-38,
        3e38,
    ]
    sizes = np.ldexp(drawn("sizes", 120), np.arange(120) % 60 - 50)
    return np.concatenate([np.array(some, np.float32), sizes, drawn("near", 33) * 104]).astype(np.float32)


def elementary(library: CDLL) -> Answers:
    """exp, log and tanh."""
    answers = [special() for _ in range(3)]
    for function, numbers in enumerate(answers):
        library.elementwise(function, numbers.ctypes.data, numbers.size)
    return answers


class NetworkMemory:
    """A network and the memory that it works in."""

    def __init__(self, library: CDLL, shape: Shape, rows: int, trains: bool) -> None:
        self.fields = create_string_buffer(library.network_bytes())
        widths, activation, has_norms, tokens, aims = shape
        sizes, columns = np.array(widths, np.int64), np.arange(widths[0])[::-1].copy()
        described = (interface.TokenFields * len(tokens))(*(interface.TokenFields(*token) for token in tokens))
        self.arrays = described, columns, np.full(widths[0], ABSENT, np.float32)
        places = addressof(described), *(array.ctypes.data for array in self.arrays[1:])
        entities = interface.EntitiesFields(widths[0], len(tokens), shape.width, HEADS, shape.embedding, *aims, *places)
        kind = activation, has_norms, byref(entities) if tokens else None
        numbers = library.network_numbers(self.fields, len(widths) - 1, sizes.ctypes.data, *kind, rows, trains)
        self.memory = np.zeros(numbers, np.float32)
        library.network_place(self.fields, self.memory.ctypes.data)


def parameters(shape: Shape) -> int:
    """Return the number of a network's parameters."""
    first = len(shape.tokens) > 0
    layers = sum((width + 1) * out for width, out in itertools.pairwise(shape.widths[first:]))
    attention = (shape.embedding + 3 + 4 * shape.width) * shape.width if first else 0
    return layers + shape.has_norms * 2 * sum(shape.widths[first + 1 : -1]) + attention


def first_parameters(shape: Shape) -> Array:
    """Parameters of a network before its training."""
    return drawn(f"parameters {shape.widths}", parameters(shape)) * np.float32(0.5)


def policy_samples(rows: int, inputs: int, choices: int) -> Samples:
    """Samples for a policy. Some actions are illegal. In the last row only the action that was taken is legal."""
    actions = np.arange(rows) * 5 % choices
    legal = drawn("legal", rows, choices) > -0.5
    legal[-1] = False
    legal[np.arange(rows), actions] = True
    return {
        "inputs": drawn("policy", rows, inputs) * 3,
        "order": np.arange(rows) * 11 % rows,
        "actions": actions,
        "log_probability": drawn("log", rows) - 3,
        "advantage": drawn("advantage", rows),
        "legal": legal,
    }


def critic_samples(rows: int, inputs: int) -> Samples:
    """Samples for a critic. One old value is NaN."""
    old = drawn("old", rows)
    old[-1] = np.nan
    return {
        "inputs": drawn("critic", rows, inputs),
        "order": np.arange(rows) * 7 % rows,
        "old_values": old,
        "targets": drawn("targets", rows) * 4,
    }


def trained(library: CDLL, shape: Shape, samples: Samples, bounds: Array) -> Answers:
    """Parameters, moments, gradient, metrics, losses and norms after a step on each minibatch."""
    size, rows = parameters(shape), len(samples["inputs"])
    vectors = [first_parameters(shape), *np.zeros((3, size), np.float32)]
    metrics, losses, norms = np.zeros((3, rows), np.float32), np.zeros(len(bounds) - 1), np.zeros(len(bounds) - 1)
    room = NetworkMemory(library, shape, rows, True)
    place = {name: array.ctypes.data for name, array in samples.items()}
    adam = interface.AdamFields(*(vector.ctypes.data for vector in vectors), size, 0, 1e-2, 1e-5, 0.5)
    passes = interface.PassesFields(
        place["inputs"], place["order"], bounds.ctypes.data, len(bounds) - 1,
        metrics.ctypes.data, losses.ctypes.data, norms.ctypes.data,
    )  # fmt: skip
    if "actions" in place:
        names = ("actions", "log_probability", "advantage", "legal")
        policy = interface.PolicyRowsFields(*(place[name] for name in names), 0.2, 0.01)
        library.network_train(room.fields, byref(adam), byref(passes), byref(policy), None)
    else:
        values = interface.ValueRowsFields(place["old_values"], place["targets"], 0.2, 1.5)
        library.network_train(room.fields, byref(adam), byref(passes), None, byref(values))
    return [*vectors, metrics, losses, norms]


def spoilt() -> Iterator[tuple[Shape, Samples]]:
    """Small networks of each kind, and samples with one number that is NaN."""
    nan, infinite = np.float32(np.nan), np.float32(np.inf)
    of_policies = (("inputs", nan), ("inputs", infinite), ("log_probability", nan), ("advantage", nan))
    of_critics = (("inputs", nan), ("inputs", infinite), ("targets", nan), ("targets", infinite))
    for samples, outputs, faults in (policy_samples(5, 3, 2), 2, of_policies), (critic_samples(5, 3), 1, of_critics):
        for name, number in faults:
            array = samples[name].copy()
            array[2] = number
            for activation, has_norms in itertools.product((TANH, RELU), (False, True)):
                yield Shape((3, 9, outputs), activation, has_norms), {**samples, name: array}


def policies(library: CDLL) -> Answers:
    """Training of a policy with norms and tanh."""
    return trained(library, POLICY, policy_samples(ROWS, 7, 17), BOUNDS)


def critics(library: CDLL) -> Answers:
    """Training of a critic with relu."""
    return trained(library, CRITIC, critic_samples(ROWS, 5), BOUNDS)


def attended() -> Iterator[tuple[Shape, Samples]]:
    """Networks with attention, each with samples that lack some tokens, then with a number that is NaN as well."""
    policy = policy_samples(ROWS, 7, 5)
    for shape, samples in (ATTENTIVE, policy), (SEEING, critic_samples(ROWS, 21)), (SCORING, policy):
        inputs = samples["inputs"]
        for place, features, *_ in shape.tokens:
            last = inputs.shape[1] - place
            inputs[np.arange(ROWS) * 7 % (place + 3) == 0, last - features : last] = ABSENT
        yield shape, samples
        inputs = inputs.copy()
        inputs[-1, 1] = np.nan
        yield shape, {**samples, "inputs": inputs}


def attention(library: CDLL) -> Answers:
    """Training of a policy and of a critic with attention, in minibatches of one part and of several, and acting."""
    answers = [array for shape, samples in attended() for array in trained(library, shape, samples, WIDE_BOUNDS)]
    (shape, samples), *_ = attended()
    flat, outputs = first_parameters(shape), np.zeros((ROWS, 5), np.float32)
    room = NetworkMemory(library, shape, ROWS, False)
    library.network_pack(room.fields, flat.ctypes.data)
    library.networks_forward(room.fields, 1, samples["inputs"].ctypes.data, ROWS, outputs.ctypes.data)
    return [*answers, outputs]


def none(library: CDLL) -> Answers:
    """Training with numbers that are none."""
    return [array for shape, samples in spoilt() for array in trained(library, shape, samples, np.array([0, 5]))]


def acting_inputs() -> tuple[Array, Array, Array]:
    """Parameters of a network, its observations, some of them NaN, and uniform numbers."""
    observations = drawn("seen", ROWS, 6) * 2
    observations[3:6, 1] = np.nan, np.inf, 1e-42
    return drawn("acting", parameters(ACTING)), observations, (drawn("uniform", ROWS) + 1) / 2


def acting(library: CDLL) -> Answers:
    """Outputs of a network with relu, its choices, their log-probabilities, and a gradient."""
    (flat, observations, uniforms), choices = acting_inputs(), ACTING.widths[-1]
    outputs, log_p, gradient = np.zeros((ROWS, choices), np.float32), np.zeros(ROWS, np.float32), np.zeros_like(flat)
    actions, planes = np.zeros(ROWS, np.int64), np.zeros((choices, 2, 16), np.float32)
    room = NetworkMemory(library, ACTING, 16, False)
    library.network_pack(room.fields, flat.ctypes.data)
    library.networks_forward(room.fields, 1, observations.ctypes.data, ROWS, outputs.ctypes.data)
    library.choices_draw(
        outputs.ctypes.data, uniforms.ctypes.data, ROWS, choices,
        planes.ctypes.data, actions.ctypes.data, log_p.ctypes.data,
    )  # fmt: skip
    room, outputs_again = NetworkMemory(library, ACTING, ROWS, True), np.zeros_like(outputs)
    library.network_forward(room.fields, flat.ctypes.data, observations.ctypes.data, ROWS, outputs_again.ctypes.data)
    slopes = drawn("slopes", ROWS, choices)
    library.network_backward(room.fields, slopes.ctypes.data, 3, gradient.ctypes.data)
    return [outputs, actions, log_p, outputs_again, gradient]


def step_inputs() -> tuple[list[Array], list[int], tuple[float, float, float]]:
    """Vectors of Adam with numbers of every size, the steps that it has taken, and its settings."""
    gradient = np.ldexp(drawn("gradient", 69), -np.arange(69))
    vectors = [drawn("parameter", 69), drawn("first", 69) * 1e-3, drawn("second", 69) ** 2, gradient]
    return [vector.astype(np.float32) for vector in vectors], [0, 10**6], (1e-3, 1e-8, 10.0)


def steps(library: CDLL) -> Answers:
    """Steps of Adam, and the gradient's norms."""
    vectors, counts, settings = step_inputs()
    norms = np.zeros(len(counts))
    for place, count in enumerate(counts):
        adam = interface.AdamFields(*(vector.ctypes.data for vector in vectors), vectors[0].size, count, *settings)
        norms[place] = library.network_step(byref(adam))
    return [*vectors, norms]


def world_inputs() -> dict[str, Array]:
    """Draw positions and velocities of bodies, and the forces on agents."""
    shape = (BODIES, 2, ENVS)
    return {
        "position": drawn("position", *shape).astype(np.float64) * 0.3,
        "velocity": drawn("velocity", AGENTS, 2, ENVS).astype(np.float64),
        "force": drawn("force", AGENTS, 2, ENVS).astype(np.float64) * 4,
        "relative": np.zeros((AGENTS, *shape)),
        "squares": np.zeros((AGENTS, *shape)),
        "distance": np.ones((AGENTS, BODIES, ENVS)),
    }


def exponents() -> Array:
    """Numbers for the exponentials of the physics."""
    return np.concatenate([drawn("far", 40).astype(np.float64) * 700, drawn("close", 40).astype(np.float64)])


def physics(library: CDLL) -> Answers:
    """Exponentials in double precision, and some steps of bodies that collide."""
    powers, world, strength = exponents(), world_inputs(), np.zeros(ENVS)
    arrays = (*world.values(), MOST_SPEED, REACH, FIRST, SECOND, strength)
    fields = interface.WorldFields(
        AGENTS, BODIES, ENVS, 0, AGENTS, len(FIRST), *(array.ctypes.data for array in arrays)
    )
    library.doubles_exp(powers.ctypes.data, powers.size)
    for _ in range(STEPS):
        library.world_advance(byref(fields))
    return [powers, *world.values()]


KINDS: dict[str, tuple[Callable[[CDLL], Answers], str]] = {
    "exp, log and tanh": (elementary, "c5f01064b90e78c9"),
    "acting": (acting, "9446fd6a403a37e7"),
    "Adam's steps": (steps, "c7ef280999b08ef1"),
    "the training of policies": (policies, "c25b357223620621"),
    "the training of critics": (critics, "e221014ed6177efb"),
    "attention": (attention, "776c6dd9086cdc06"),
    "numbers that are none": (none, "1a830dd968f01c14"),
    "physics": (physics, "d5b7398bfb914127"),
}
"""The function that computes the answers of each kind, and the right sum of these answers."""


def sum_of(answers: Answers) -> str:
    """The first digits of a hash of all bytes. All NaN count alike, with any sign and bits."""
    digest = hashlib.sha256()
    for array in answers:
        if array.dtype.kind == "f":
            array[array != array] = np.nan
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def wrong_answers(library: CDLL) -> list[str]:
    """The kinds with wrong answers by this library."""
    with np.errstate(all="ignore"):
        return [kind for kind, (compute, right) in KINDS.items() if sum_of(compute(library)) != right]
