"""Answers that every right build of the kernels gives, to the last bit.

IEEE 754 has one result for each operation of the kernels, and the sources fix their order. So the answers are known
without any compiler: `tests/unit/native/test_known_answers.py` computes them by numpy and exact fractions. A compiler
whose floats are fast (contracted, reordered, approximated, without NaN or subnormal numbers) comes to others.

A sum of all bytes stands for the answers of one kind. Inputs are read off a stream of SHAKE-256.
"""

import hashlib
import itertools
from collections.abc import Callable, Sequence
from ctypes import CDLL, byref, create_string_buffer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.native.interface import AdamFields, PassesFields, PolicyRowsFields, ValueRowsFields, WorldFields

Array = NDArray[Any]
Answers = list[Array]

TANH, RELU = range(2)
ROWS = 81
BOUNDS = np.array([0, 19, 41, 55, 70, 81])
"""Of minibatches whose rows fill tiles of six, and leave one to five over."""
POLICY, CRITIC, ACTING = (7, 72, 56, 17), (5, 33, 1), (6, 40, 18)
"""Widths that fill vectors of every number, and leave halves over. Choices are among 17 and 18."""
AGENTS, BODIES, ENVS, STEPS = 3, 5, 21, 4
FIRST, SECOND = np.array([0, 0, 1, 2]), np.array([1, 2, 2, 4])
MOST_SPEED, REACH = np.array([np.inf, 1.0, 1.3]), np.array([0.3, 0.3, 0.15, 0.25])


def drawn(name: str, *shape: int) -> Array:
    """Numbers from -1 to 1, in single precision."""
    count = int(np.prod(shape))
    words = np.frombuffer(hashlib.shake_256(name.encode()).digest(4 * count), "<i4")
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


class Room:
    """A network and the memory that it works in."""

    def __init__(self, library: CDLL, widths: Sequence[int], kind: tuple[int, bool], rows: int, trains: bool) -> None:
        self.fields = create_string_buffer(library.network_bytes())
        sizes = np.array(widths, np.int64)
        numbers = library.network_numbers(self.fields, len(widths) - 1, sizes.ctypes.data, *kind, rows, trains)
        self.memory = np.zeros(numbers, np.float32)
        library.network_place(self.fields, self.memory.ctypes.data)


def parameters(widths: Sequence[int], has_norms: bool) -> int:
    """How many a network has."""
    layers = itertools.pairwise(widths)
    return sum((width + 1) * out for width, out in layers) + has_norms * 2 * sum(widths[1:-1])


def policy_inputs() -> dict[str, Array]:
    """What a policy learns from; some actions are illegal, and the last row's are all but the one that was taken."""
    actions = np.arange(ROWS) * 5 % POLICY[-1]
    legal = drawn("legal", ROWS, POLICY[-1]) > -0.5
    legal[-1] = False
    legal[np.arange(ROWS), actions] = True
    return {
        "inputs": drawn("policy", ROWS, POLICY[0]) * 3,
        "order": np.arange(ROWS) * 11 % ROWS,
        "actions": actions,
        "log_probability": drawn("log", ROWS) - 3,
        "advantage": drawn("advantage", ROWS),
        "legal": legal,
    }


def critic_inputs() -> dict[str, Array]:
    """What a critic learns from; an old value is NaN."""
    old = drawn("old", ROWS)
    old[80] = np.nan
    return {
        "inputs": drawn("critic", ROWS, CRITIC[0]),
        "order": np.arange(ROWS) * 7 % ROWS,
        "old_values": old,
        "targets": drawn("targets", ROWS) * 4,
    }


def trained(
    library: CDLL, widths: Sequence[int], has_norms: bool, samples: dict[str, Array], is_policy: bool
) -> Answers:
    """Parameters, moments, gradient, metrics, losses and norms after a step on each minibatch."""
    size = parameters(widths, has_norms)
    vectors = [drawn(f"parameters {widths}", size) * np.float32(0.5), *np.zeros((3, size), np.float32)]
    metrics, losses, norms = np.zeros((3, ROWS), np.float32), np.zeros(len(BOUNDS) - 1), np.zeros(len(BOUNDS) - 1)
    room = Room(library, widths, (TANH if is_policy else RELU, has_norms), ROWS, True)
    place = {name: array.ctypes.data for name, array in samples.items()}
    adam = AdamFields(*(vector.ctypes.data for vector in vectors), size, 0, 1e-2, 1e-5, 0.5)
    passes = PassesFields(
        place["inputs"], place["order"], BOUNDS.ctypes.data, len(BOUNDS) - 1,
        metrics.ctypes.data, losses.ctypes.data, norms.ctypes.data,
    )  # fmt: skip
    if is_policy:
        rows = PolicyRowsFields(
            *(place[name] for name in ("actions", "log_probability", "advantage", "legal")), 0.2, 0.01
        )
        library.network_train(room.fields, byref(adam), byref(passes), byref(rows), None)
    else:
        values = ValueRowsFields(place["old_values"], place["targets"], 0.2, 1.5)
        library.network_train(room.fields, byref(adam), byref(passes), None, byref(values))
    return [*vectors, metrics, losses, norms]


def policies(library: CDLL) -> Answers:
    """Training of a policy with norms and tanh."""
    return trained(library, POLICY, True, policy_inputs(), True)


def critics(library: CDLL) -> Answers:
    """Training of a critic with relu."""
    return trained(library, CRITIC, False, critic_inputs(), False)


def acting_inputs() -> tuple[Array, Array, Array]:
    """Parameters of a network, what it sees, with numbers that are none, and uniform numbers."""
    observations = drawn("seen", ROWS, ACTING[0]) * 2
    observations[3:6, 1] = np.nan, np.inf, 1e-42
    return drawn("acting", parameters(ACTING, False)), observations, (drawn("uniform", ROWS) + 1) / 2


def acting(library: CDLL) -> Answers:
    """Outputs of a network with relu, its choices, their log-probabilities, and a gradient."""
    flat, observations, uniforms = acting_inputs()
    outputs, log_p, gradient = np.zeros((ROWS, ACTING[-1]), np.float32), np.zeros(ROWS, np.float32), np.zeros_like(flat)
    choices, planes = np.zeros(ROWS, np.int64), np.zeros((ACTING[-1], 2, 16), np.float32)
    room = Room(library, ACTING, (RELU, False), 16, False)
    library.network_pack(room.fields, flat.ctypes.data)
    library.networks_forward(room.fields, 1, observations.ctypes.data, ROWS, outputs.ctypes.data)
    library.choices_draw(
        outputs.ctypes.data, uniforms.ctypes.data, ROWS, ACTING[-1],
        planes.ctypes.data, choices.ctypes.data, log_p.ctypes.data,
    )  # fmt: skip
    room, again = Room(library, ACTING, (RELU, False), ROWS, True), np.zeros_like(outputs)
    library.network_forward(room.fields, flat.ctypes.data, observations.ctypes.data, ROWS, again.ctypes.data)
    slopes = drawn("slopes", ROWS, ACTING[-1])
    library.network_backward(room.fields, slopes.ctypes.data, 3, gradient.ctypes.data)
    return [outputs, choices, log_p, again, gradient]


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
        adam = AdamFields(*(vector.ctypes.data for vector in vectors), vectors[0].size, count, *settings)
        norms[place] = library.network_step(byref(adam))
    return [*vectors, norms]


def world_inputs() -> dict[str, Array]:
    """Where bodies are, and how agents are pushed."""
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
    """Numbers whose exponentials physics takes."""
    return np.concatenate([drawn("far", 40).astype(np.float64) * 700, drawn("close", 40).astype(np.float64)])


def physics(library: CDLL) -> Answers:
    """Exponentials in double precision, and some steps of bodies that collide."""
    powers, world, strength = exponents(), world_inputs(), np.zeros(ENVS)
    arrays = (*world.values(), MOST_SPEED, REACH, FIRST, SECOND, strength)
    fields = WorldFields(AGENTS, BODIES, ENVS, 0, AGENTS, len(FIRST), *(array.ctypes.data for array in arrays))
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
    "physics": (physics, "d5b7398bfb914127"),
}
"""What computes the answers of each kind, and their sum."""


def sum_of(answers: Answers) -> str:
    """The first digits of a hash of all bytes; a NaN counts as one, whatever its sign and bits."""
    digest = hashlib.sha256()
    for array in answers:
        digest.update(
            np.where(array == array, array, array.dtype.type("nan" if array.dtype.kind == "f" else 0)).tobytes()
        )
    return digest.hexdigest()[:16]


def wrong_answers(library: CDLL) -> list[str]:
    """The kinds of which the library comes to other answers."""
    with np.errstate(all="ignore"):
        return [kind for kind, (compute, right) in KINDS.items() if sum_of(compute(library)) != right]
