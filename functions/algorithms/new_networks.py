"""New networks of an algorithm: layers, or modules of the configuration's factory."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from marless.functions.algorithms.engine import engine_of
from marless.functions.algorithms.specification import NetworkConfig
from marless.functions.algorithms.trainable import moments
from marless.functions.keys import group_name
from marless.functions.nn import recurrent
from marless.functions.nn.layers import Array
from marless.functions.nn.shape import CLIPPED, Network, NetworkShape


class NetworkPart(NamedTuple):
    """A part of a group's state that is a network: its `name`, and the shape of the observations that it takes first.

    Its last layer begins with `gain`. It `acts` if actors read it.
    """

    name: str
    observation: tuple[int, ...]
    gain: float
    acts: bool = False


def new_network(
    config: NetworkConfig, part: NetworkPart, network: Network, group: int, rng: np.random.Generator
) -> dict[str, Array]:
    """The tensors of a new network with the widths of `network`, and its moments, by name.

    The configuration's factory makes it. Without a factory the network has layers. So do critics of a state (a vector)
    if the factory is a built-in one for images or entities. Raises `BadRequest` as `Engine.initial_tensors` does.
    """
    name = group_name(group)
    prefix, optimiser = f"{part.name}/{name}", f"{part.name}_optimiser/{name}"
    is_layered = not config.has_factory
    if is_layered or (":" not in config.network and not part.acts and len(part.observation) == 1):
        flat = engine_of(config).initial_parameters(network, rng, part.gain)
        return {**recurrent.to_tensors(network, flat, prefix), **moments(optimiser, network.parameters)}
    width, *hidden, outputs = network.sizes
    shape = NetworkShape(
        factory=config.network,
        observation=part.observation,
        rest=width - math.prod(part.observation),
        outputs=outputs,
        hidden=tuple(hidden),
        output_gain=part.gain,
    )
    initial_tensors = engine_of(config).initial_tensors(shape, rng, part.acts)
    if network.gaussian:
        initial_tensors["log_std"] = np.full(outputs, recurrent.FIRST_LOG_STD, np.float32)
    if network.clipped:
        initial_tensors[CLIPPED] = np.zeros(0, np.float32)
    count = sum(array.size for array in initial_tensors.values() if array.dtype.kind == "f")
    return {**{f"{prefix}/{key}": array for key, array in initial_tensors.items()}, **moments(optimiser, count)}


def as_target(tensors: Mapping[str, Array], part: str, target: str) -> dict[str, Array]:
    """Copies of the tensors of a part, named for its target network."""
    return {
        target + name.removeprefix(part): array.copy() for name, array in tensors.items() if name.startswith(f"{part}/")
    }
