"""The shape of a network that a factory makes, as it is stored beside its weights."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

# The names of a network's tensors: its shape as JSON, its graph for ONNX Runtime, and the prefix of its parameters.
SHAPE, GRAPH, PARAMETERS = "shape", "graph", "net/"


class NetworkShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a factory makes a module of: ``module(observation, rest)`` is ``[B, outputs]``.

    `factory` is its name. A row of inputs is an `observation` ``[B, *observation]``, an image ``[H, W, C]``, a set of
    entities ``[N, features]`` or a vector, and the `rest` ``[B, rest]``: the agent's one-hot, or actions. `hidden` are
    the widths of the configuration. Weights of the last layer are to begin with the gain `output_gain`.
    """

    factory: str
    observation: tuple[int, ...]
    rest: int
    outputs: int
    hidden: tuple[int, ...]
    output_gain: float

    @property
    def any_number(self) -> bool:
        """Whether the network takes any number of entities."""
        return self.factory == "attention"

    @property
    def width(self) -> int:
        """The numbers of an observation."""
        return int(np.prod(self.observation))

    def encode(self) -> NDArray[np.uint8]:
        """The shape as a tensor."""
        return np.frombuffer(msgspec.json.encode(self), np.uint8)

    @classmethod
    def decode(cls, tensor: NDArray[Any]) -> "NetworkShape":
        """The inverse of `encode`; raises `ValueError` for anything else."""
        return msgspec.json.decode(np.asarray(tensor, np.uint8).tobytes(), type=cls)
