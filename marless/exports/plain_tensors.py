"""Policies as plainly named weights and a list of layers, for programs that build the networks themselves."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from safetensors.numpy import save

from coordinator.errors import UserError
from marless.exports.agent_policy import (
    AgentPolicy,
    FactoryNetwork,
    Gru,
    LayerNorm,
    Linear,
    Normalise,
    PolicyLayer,
    Relu,
    Tanh,
)

# What layers are called in the document.
_NAMES: dict[type, str] = {
    Normalise: "normalise",
    Linear: "linear",
    LayerNorm: "layer_norm",
    Tanh: "tanh",
    Relu: "relu",
    Gru: "gru",
}


def tensors_file(policies: Sequence[AgentPolicy]) -> bytes:
    """All weights, ``<agent>/<layer>/<name>``; raises `UserError` for networks of a factory."""
    tensors = {}
    for policy in policies:
        for place, layer in enumerate(policy.layers):
            if isinstance(layer, FactoryNetwork):
                subject = f"{policy.name} has a network of algorithm.network={layer.shape.factory}"
                raise UserError(f"{subject}, which is not a list of layers; use --to onnx or --to torch")
            for name, array in _arrays(layer).items():
                tensors[_tensor(policy, place, name)] = np.ascontiguousarray(array)
    return bytes(save(tensors))


def layers(policy: AgentPolicy) -> list[dict[str, Any]]:
    """The layers from the observation, followed by the last action if there is one, to the outputs: the type of each,
    and where its tensors are."""
    return [
        {"type": _NAMES[type(layer)], "tensors": {name: _tensor(policy, place, name) for name in _arrays(layer)}}
        for place, layer in enumerate(policy.layers)
    ]


def _arrays(layer: PolicyLayer) -> dict[str, Any]:
    return {field.name: getattr(layer, field.name) for field in dataclasses.fields(layer)}


def _tensor(policy: AgentPolicy, place: int, name: str) -> str:
    return f"{policy.name}/{place}/{name}"
