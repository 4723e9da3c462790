"""Policies as plainly named weights and a list of layers, for programs that build the networks themselves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from marless.coordinator.errors import UserError
from marless.exports.agent_policy import AgentPolicy, FactoryNetwork
from marless.functions.nn import layers
from marless.functions.nn.entities import forward_pass
from marless.functions.nn.entities.attention import EntityAttention
from marless.functions.nn.layers import Layer

# The module of the layers, next to the program that plays the policies.
MODULE, ATTENTION = "marless_layers.py", "marless_attention.py"


def plain_tensors(policies: Sequence[AgentPolicy]) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """Return files with all weights, ``<agent>/<layer>/<name>``, and with the code that computes with them, and the
    layers of each agent. Raise `UserError` for networks of a factory."""
    tensors = {}
    for policy in policies:
        for place, layer in enumerate(policy.layers):
            if isinstance(layer, FactoryNetwork):
                subject = f"{policy.name} has a network of algorithm.network={layer.shape.factory}"
                raise UserError(f"{subject}, which is not a list of plain layers; use the format onnx or torch")
            for name, array in vars(layer).items():
                tensors[_tensor(policy, place, name)] = np.ascontiguousarray(array)
    modules = {MODULE: layers, ATTENTION: forward_pass}
    texts = {name: Path(str(module.__file__)).read_bytes() for name, module in modules.items()}
    return {"policies.safetensors": bytes(save(tensors)), **texts}, [{"layers": _layers(policy)} for policy in policies]


def _layers(policy: AgentPolicy) -> list[dict[str, Any]]:
    """The layers from the observation, followed by the last action if there is one, to the outputs. Each has its type,
    the places of its tensors, and the entities of attention."""
    return [
        {"type": layer.kind, "tensors": {name: _tensor(policy, place, name) for name in vars(layer)}}
        | ({"entities": layer.entities} if isinstance(layer, EntityAttention) else {})
        for place, layer in enumerate(policy.layers)
        if isinstance(layer, Layer)
    ]


def _tensor(policy: AgentPolicy, place: int, name: str) -> str:
    return f"{policy.name}/{place}/{name}"
