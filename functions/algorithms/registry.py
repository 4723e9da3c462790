"""The algorithms by name."""

import importlib
from typing import cast

import msgspec

from functions.algorithms import ippo, mappo
from functions.algorithms.base import AlgorithmConfig, AlgorithmSpec, Implementation
from functions.contract import BadRequest, Hyperparameters

ALGORITHMS: dict[str, AlgorithmSpec] = {spec.name: spec for spec in (ippo.SPEC, mappo.SPEC)}

AnyConfig = ippo.IppoConfig | mappo.MappoConfig


def algorithm(name: str) -> AlgorithmSpec:
    """The specification called `name`; raises `BadRequest`."""
    if name not in ALGORITHMS:
        raise BadRequest(f"no algorithm is called {name!r}; there are {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name]


def implementation(spec: AlgorithmSpec) -> Implementation:
    """The module with the algorithm's stages, imported now."""
    return cast(Implementation, importlib.import_module(spec.implementation))


def configuration(spec: AlgorithmSpec, hyperparameters: Hyperparameters) -> AlgorithmConfig:
    """The typed configuration of a message; raises `BadRequest` naming the field."""
    try:
        return msgspec.convert({"name": spec.name, **hyperparameters}, spec.config)
    except msgspec.ValidationError as error:
        raise BadRequest(f"algorithm {spec.name}: {error}") from error
