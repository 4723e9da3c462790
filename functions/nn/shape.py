"""The shapes of what factories make, as they are stored beside the weights."""

from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from functions.encoding import from_json, to_json

# The names of a network's tensors: its shape as JSON, its graph for ONNX Runtime, and the prefix of its parameters.
SHAPE, GRAPH, PARAMETERS = "shape", "graph", "net/"


class FactoryShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of all: `factory` is its name."""

    factory: str

    @property
    def setting(self) -> str:
        """The setting that names the factory, with its value."""
        raise NotImplementedError

    def encode(self) -> NDArray[np.uint8]:
        """The shape as a tensor."""
        return np.frombuffer(to_json(self), np.uint8)

    @classmethod
    def decode(cls, tensor: NDArray[Any]) -> Self:
        """The inverse of `encode`; raises `ValueError` for anything else."""
        return from_json(np.asarray(tensor, np.uint8).tobytes(), cls)


class NetworkShape(FactoryShape, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a factory makes a module of: ``module(observation, rest)`` is ``[B, outputs]``.

    A row of inputs is an `observation` ``[B, *observation]``, an image ``[H, W, C]``, a set of
    entities ``[N, features]`` or a vector, and the `rest` ``[B, rest]``: the agent's one-hot, or actions. `hidden` are
    the widths of the configuration. Weights of the last layer are to begin with the gain `output_gain`.
    """

    observation: tuple[int, ...]
    rest: int
    outputs: int
    hidden: tuple[int, ...]
    output_gain: float

    @property
    def setting(self) -> str:
        """See `FactoryShape`."""
        return f"algorithm.network={self.factory}"

    @property
    def any_number(self) -> bool:
        """Whether the network takes any number of entities."""
        return self.factory == "attention"

    @property
    def width(self) -> int:
        """The numbers of an observation."""
        return int(np.prod(self.observation))


class MixerShape(FactoryShape, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a factory makes a mixing network of: ``module(utilities, state, alive)`` is ``[B]``, the joint values.

    The inputs are the utilities ``[B, agents]`` of a side, 0 for dead agents, the state ``[B, state]``, and which
    agents are alive ``[B, agents]``. The other fields are settings of the configuration.
    """

    agents: int
    state: int
    mixing_embed_dim: int
    hypernet_embed: int

    @property
    def setting(self) -> str:
        """See `FactoryShape`."""
        return f"algorithm.mixer={self.factory}"
