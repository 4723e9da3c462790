"""Low-rank adapters as flat arrays: where each matrix stands, and how they begin.

Hu et al., "LoRA: low-rank adaptation of large language models", 2022: a frozen matrix W acts as ``W + B A``, A
``[rank, in]`` and B ``[out, rank]``. The seven projections of the top layers have one each, with the names of the
package peft. ``alpha / rank`` is 1.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless_language.base_header import LlamaShape
from marless_language.errors import UnusableBase

Flat = NDArray[np.float32]


class Entry(NamedTuple):
    """A matrix of an adapter, and the index of its first number in the flat array."""

    name: str
    shape: tuple[int, int]
    start: int

    @property
    def stop(self) -> int:
        return self.start + self.shape[0] * self.shape[1]


def projections(shape: LlamaShape) -> dict[str, tuple[int, int]]:
    """The matrices of a layer that take an adapter, ``[out, in]`` by name."""
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    return {
        "self_attn.q_proj": (queries, shape.hidden),
        "self_attn.k_proj": (keys, shape.hidden),
        "self_attn.v_proj": (keys, shape.hidden),
        "self_attn.o_proj": (shape.hidden, queries),
        "mlp.gate_proj": (shape.intermediate, shape.hidden),
        "mlp.up_proj": (shape.intermediate, shape.hidden),
        "mlp.down_proj": (shape.hidden, shape.intermediate),
    }


class AdapterLayout:
    """Adapters of a rank in the top `layers` layers of a model."""

    def __init__(self, shape: LlamaShape, rank: int, layers: int) -> None:
        """Raises `UnusableBase` for more layers than the model has, and for ranks that bring nothing."""
        if not 1 <= layers <= shape.layers:
            raise UnusableBase(f"adapters in {layers} layers: the model has {shape.layers}; choose at most as many")
        smallest = min(min(sizes) for sizes in projections(shape).values())
        if not 1 <= rank <= smallest:
            raise UnusableBase(f"rank {rank}: the smallest matrix of the model allows 1 to {smallest}")
        self.shape, self.rank, self.layers = shape, rank, layers

    @property
    def first(self) -> int:
        """The lowest layer with adapters. Those below it are the trunk."""
        return self.shape.layers - self.layers

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Every A and B in the order of the flat array."""
        entries, start = list[Entry](), 0
        for name, sizes in self._sizes():
            entries.append(Entry(name, sizes, start))
            start = entries[-1].stop
        return tuple(entries)

    def _sizes(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for layer in range(self.first, self.shape.layers):
            for name, (outputs, inputs) in projections(self.shape).items():
                prefix = f"model.layers.{layer}.{name}"
                yield f"{prefix}.lora_A.weight", (self.rank, inputs)
                yield f"{prefix}.lora_B.weight", (outputs, self.rank)

    @property
    def size(self) -> int:
        """Numbers of an adapter."""
        return self.entries[-1].stop

    def split(self, flat: Flat) -> dict[str, Flat]:
        """The matrices by name, views of the flat array. Raises `ValueError` for an array of another size."""
        if flat.shape != (self.size,):
            raise ValueError(f"an adapter of this layout has {self.size} numbers, not {list(flat.shape)}")
        return {entry.name: flat[entry.start : entry.stop].reshape(entry.shape) for entry in self.entries}

    def join(self, matrices: Mapping[str, Flat]) -> Flat:
        """The flat array of the matrices by name."""
        return np.concatenate([np.asarray(matrices[entry.name], np.float32).ravel() for entry in self.entries])


def initial_adapter(layout: AdapterLayout, rng: np.random.Generator) -> Flat:
    """A is normal with variance 1 / in, B is zero, so that it changes nothing yet.

    peft draws A uniformly with variance 1 / (3 in). With a variance of 1 / in the inputs keep their size on the way
    through A, like in other networks' adapters here.
    """
    flat = np.zeros(layout.size, np.float32)
    for name, matrix in layout.split(flat).items():
        if name.endswith("lora_A.weight"):
            matrix[...] = rng.standard_normal(matrix.shape, np.float32) / np.float32(np.sqrt(matrix.shape[1]))
    return flat
