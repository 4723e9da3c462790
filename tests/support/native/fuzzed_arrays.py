"""Arrays and networks that calls of the kernels get from a fuzzer: right ones, and wrong ones of every kind."""

import os

import numpy as np
from described_entities import described
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from marless.functions.nn.entities.attention import attention_over
from marless.functions.nn.layers import LayerNorm, Relu, Tanh
from marless.functions.nn.shape import Network

EXAMPLES = int(os.environ.get("FUZZED_EXAMPLES", "40"))
fuzzed = settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
# Numbers that round, overflow, vanish or are none.
SPECIAL = np.array([0, -0.0, 1e-45, -1e-39, 1.2e-38, 3e38, -3e38, np.inf, -np.inf, np.nan, 88.8, -104.0], np.float32)
KINDS = ("<f4", "<f8", "<f2", ">f4", "<i4", "?")
# Refusals of arrays and of numbers that do not convert.
REFUSALS = (ValueError, TypeError, IndexError, OverflowError)


@st.composite
def networks(draw):
    sizes = tuple(draw(st.lists(st.integers(1, 40), min_size=2, max_size=4)))
    front = None
    if draw(st.integers(0, 2)) == 0:
        entities = draw(descriptions())
        front = attention_over(entities)
        pooled = draw(st.sampled_from([32, 64, 96]))
        sizes = (entities.size, pooled, *sizes[1:-1], sizes[-1] + max(0, front.surplus(pooled) + len(front.places())))
    kind = {"activation": draw(st.sampled_from([Tanh, Relu])), "norm": draw(st.sampled_from([None, LayerNorm]))}
    return Network(sizes, front=front, **kind)


@st.composite
def descriptions(draw):
    """Return up to two blocks of entities with columns in any order. Some entities can be absent."""
    block = st.tuples(st.integers(1, 12), st.integers(1, 3), st.booleans())
    own, blocks = draw(st.integers(1, 4)), draw(st.lists(block, max_size=2))
    order = draw(st.permutations(range(own + sum(count * features for count, features, _ in blocks))))
    return described(own, *blocks, order=order, first_action=draw(st.sampled_from([None, 1])))


def wrong(draw, array):
    """The array with another shape, type or order in memory, or as one that cannot be written or read at once."""
    match draw(st.sampled_from(["shape", "kind", "fortran", "strided", "reversed", "read-only", "unaligned"])):
        case "shape":
            parts = [np.s_[1:], np.s_[..., None], np.s_[:0], np.s_[..., 1:], *[np.s_[0]] * (len(array) > 0)]
            return np.array(array[draw(st.sampled_from(parts))])
        case "kind":
            with np.errstate(all="ignore"):
                return array.astype(draw(st.sampled_from(KINDS)))
        case "fortran":
            return np.asfortranarray(array)
        case "strided":
            return np.repeat(array, 2, axis=-1)[..., ::2]
        case "reversed":
            return array[::-1].copy()[::-1]
        case "read-only":
            array.flags.writeable = False
            return array
        case "unaligned":
            memory = np.zeros(array.nbytes + 1, np.uint8)
            moved = memory[1:].view(array.dtype).reshape(array.shape)
            moved[...] = array
            return moved


def numbers(draw, shape, is_finite=False):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    array = rng.standard_normal(shape).astype(np.float32)
    return (
        array
        if is_finite or draw(st.booleans())
        else np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), array)
    )


def arrays(draw, *shapes):
    """Arrays of these shapes. In half of the cases one of them is wrong."""
    fault = draw(st.integers(0, 2 * len(shapes) - 1))
    right = [numbers(draw, shape) for shape in shapes]
    return [wrong(draw, array) if place == fault else array for place, array in enumerate(right)]


def is_called(call, *arguments):
    try:
        return call(*arguments)
    except REFUSALS:
        return None
