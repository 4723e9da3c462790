"""A policy as an ONNX graph with the weights in it, for ONNX Runtime and other readers of ONNX.

Inputs are `observation`, `mask` for choices, and `hidden` and `last_action` if a policy has them. All except the
observation may be left out and are then all legal or zero. Outputs are `outputs`, `action` in the environment's format,
and `next_hidden` and `next_last_action`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from marless.exports.agent_policy import (
    HIDDEN,
    LAST_ACTION,
    NEXT,
    AgentPolicy,
    ChoiceActions,
    FactoryNetwork,
    NumberActions,
)
from marless.exports.onnx_attention import entity_attention, with_scores
from marless.exports.onnx_nodes import Nodes
from marless.exports.onnx_order import sorted_entities
from marless.functions.nn.entities.attention import EntityAttention
from marless.functions.nn.layers import EPSILON, MOST_DEVIATIONS, Gru, Layer, LayerNorm, Linear, Normalise, Relu, Tanh
from marless.functions.nn.losses import ILLEGAL

IR_VERSION = 10
_FACTORY = "network/"


def onnx_model(policy: AgentPolicy) -> bytes:
    """The graph of a policy. Takes any number of rows."""
    nodes, value = Nodes(), "observation"
    if policy.order is not None:
        value = sorted_entities(nodes, policy.order, policy.observation_size)
    if policy.last_action:
        value = nodes.add("Concat", value, _expand_to_batch(nodes, LAST_ACTION), axis=-1)
    finish = None
    for layer in policy.layers:
        if isinstance(layer, FactoryNetwork):
            value = _factory(nodes, layer, value)
        elif isinstance(layer, EntityAttention):
            value, features = entity_attention(nodes, value, layer)
            finish = partial(with_scores, nodes, features=features, layer=layer)
        else:
            value = LAYERS[type(layer)](nodes, value, *map(nodes.constant, layer.arrays))
    _HEADS[type(policy.actions)](nodes, policy, value if finish is None else finish(value))
    return _model(nodes, policy)


def _model(nodes: Nodes, policy: AgentPolicy) -> bytes:
    inputs, defaults = [], []
    for name, width in policy.inputs.items():
        kind = TensorProto.BOOL if name == "mask" else TensorProto.FLOAT
        # An initialiser with an input's name is its default. One of its rows serves all.
        inputs.append(helper.make_tensor_value_info(name, kind, [f"{name}_rows", width]))
        if name == "mask":
            defaults.append(numpy_helper.from_array(np.ones((1, width), np.bool_), name))
        elif name != "observation":
            defaults.append(numpy_helper.from_array(np.zeros((1, width), np.float32), name))
    graph = helper.make_graph(
        nodes.nodes, "policy", inputs, _outputs(policy), initializer=[*defaults, *nodes.constants]
    )
    model = helper.make_model(
        graph, opset_imports=nodes.opsets, functions=nodes.functions, ir_version=IR_VERSION, producer_name="marless"
    )
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def _outputs(policy: AgentPolicy) -> list[Any]:
    actions = policy.actions
    kind, shape = TensorProto.FLOAT if isinstance(actions, NumberActions) else TensorProto.INT64, actions.shape
    widths = {f"{NEXT}{name}": width for name, width in policy.states.items()}
    return [
        helper.make_tensor_value_info("outputs", TensorProto.FLOAT, ["rows", policy.outputs]),
        helper.make_tensor_value_info("action", kind, ["rows", *shape]),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width]) for name, width in widths.items()),
    ]


def _expand_to_batch(nodes: Nodes, value: str) -> str:
    """A value of one row, or of as many as the observation has, as the latter."""
    rows = nodes.add("Shape", "observation", start=0, end=1)
    return nodes.add("Expand", value, nodes.add("Concat", rows, nodes.integers(1), axis=0))


def _clip(nodes: Nodes, value: str, most: float) -> str:
    bounds = (nodes.constant(np.array(bound, np.float32)) for bound in (-most, most))
    return nodes.add("Clip", value, *bounds)


def _normalise(nodes: Nodes, value: str, mean: str, inverse: str) -> str:
    return _clip(nodes, nodes.add("Mul", nodes.add("Sub", value, mean), inverse), MOST_DEVIATIONS)


def _linear(nodes: Nodes, value: str, weight: str, bias: str) -> str:
    return nodes.add("Add", nodes.add("MatMul", value, weight), bias)


def _layer_norm(nodes: Nodes, value: str, gain: str, shift: str) -> str:
    return nodes.add("LayerNormalization", value, gain, shift, axis=-1, epsilon=EPSILON)


def _gru(nodes: Nodes, value: str, x: str, h: str, bx: str, bh: str) -> str:
    (input_r, input_z, input_n), (state_r, state_z, state_n) = (
        nodes.split("Split", part, parts=3, axis=-1, num_outputs=3)
        for part in (_linear(nodes, value, x, bx), _linear(nodes, HIDDEN, h, bh))
    )
    reset = nodes.add("Sigmoid", nodes.add("Add", input_r, state_r))
    update = nodes.add("Sigmoid", nodes.add("Add", input_z, state_z))
    new = nodes.add("Tanh", nodes.add("Add", input_n, nodes.add("Mul", reset, state_n)))
    # (1 - z) n + z h
    after = nodes.add("Add", new, nodes.add("Mul", update, nodes.add("Sub", HIDDEN, new)))
    nodes.name_output(after, f"{NEXT}{HIDDEN}")
    return after


def _factory(nodes: Nodes, layer: FactoryNetwork, value: str) -> str:
    model = onnx.compose.add_prefix(onnx.load_from_string(layer.graph), _FACTORY)
    width = int(np.prod(layer.observation))
    values = nodes.add("Slice", value, nodes.integers(0), nodes.integers(width), nodes.integers(1))
    others = nodes.add("Slice", value, nodes.integers(width), nodes.integers(np.iinfo(np.int64).max), nodes.integers(1))
    initial_values = {
        "observation": nodes.add("Reshape", values, nodes.integers(-1, *layer.observation)),
        "rest": nodes.add("Concat", others, _expand_to_batch(nodes, nodes.constant(layer.one_hot[None])), axis=-1),
    }
    for name, array in layer.parameters.items():
        initial_values[f"net/{name}"] = nodes.constant(array)
    nodes.nodes += [
        helper.make_node("Identity", [initial_values[one.name.removeprefix(_FACTORY)]], [one.name])
        for one in model.graph.input
    ]
    nodes.nodes += model.graph.node
    nodes.constants += model.graph.initializer
    nodes.functions += model.functions
    nodes.opsets = list(model.opset_import)
    return str(model.graph.output[0].name)


def _choices(nodes: Nodes, policy: AgentPolicy, value: str) -> None:
    actions = policy.actions
    assert isinstance(actions, ChoiceActions)
    outputs = nodes.add("Where", "mask", value, nodes.numbers(ILLEGAL))
    nodes.name_output(outputs, "outputs")
    counts = actions.counts
    parts = [outputs]
    if len(counts) > 1:
        parts = nodes.split("Split", outputs, nodes.integers(*counts), parts=len(counts), axis=-1)
    indices = [nodes.add("ArgMax", part, axis=-1, keepdims=0 if actions.single else 1) for part in parts]
    if actions.joined:
        action = nodes.add("Gather", nodes.constant(actions.table), indices[0], axis=0)
    else:
        action = indices[0] if len(indices) == 1 else nodes.add("Concat", *indices, axis=-1)
        action = nodes.add("Add", action, nodes.integers(*actions.first))
    nodes.name_output(_reshape_action(nodes, action, actions.shape), "action")
    if policy.last_action:
        one_hots = [
            nodes.add(
                "Reshape",
                nodes.add("OneHot", one, nodes.integers(count), nodes.numbers(0, 1), axis=-1),
                nodes.integers(-1, count),
            )
            for one, count in zip(indices, counts, strict=True)
        ]
        nodes.name_output(nodes.add("Concat", *one_hots, axis=-1), f"{NEXT}{LAST_ACTION}")


def _numbers(nodes: Nodes, policy: AgentPolicy, value: str) -> None:
    actions = policy.actions
    assert isinstance(actions, NumberActions)
    nodes.name_output(value, "outputs")
    mean = nodes.add("Slice", value, nodes.integers(0), nodes.integers(actions.width), nodes.integers(1))
    unit_action = _clip(nodes, mean, 1) if actions.clipped else nodes.add("Tanh", mean)
    low, high = (nodes.numbers(*bound) for bound in (actions.low, actions.high))
    share = nodes.add("Mul", nodes.add("Add", unit_action, nodes.numbers(1)), nodes.numbers(0.5))
    below = nodes.add("Mul", nodes.add("Sub", nodes.numbers(1), share), low)
    action = nodes.add("Min", nodes.add("Max", nodes.add("Add", below, nodes.add("Mul", share, high)), low), high)
    nodes.name_output(_reshape_action(nodes, action, actions.shape), "action")
    if policy.last_action:
        next_last_action = nodes.add("Mul", unit_action, nodes.numbers(*actions.last_scale))
        nodes.name_output(
            nodes.add("Add", next_last_action, nodes.numbers(*actions.last_offset)), f"{NEXT}{LAST_ACTION}"
        )


def _reshape_action(nodes: Nodes, action: str, shape: tuple[int, ...]) -> str:
    return nodes.add("Reshape", action, nodes.integers(-1, *shape))


# By kind: adds a layer of `marless.functions.nn.layers`, given the names of its input and its parameters.
LAYERS: dict[type[Layer], Callable[..., str]] = {
    Normalise: _normalise,
    Linear: _linear,
    LayerNorm: _layer_norm,
    Tanh: lambda nodes, value: nodes.add("Tanh", value),
    Relu: lambda nodes, value: nodes.add("Relu", value),
    Gru: _gru,
}
_HEADS: dict[type, Callable[[Nodes, AgentPolicy, str], None]] = {ChoiceActions: _choices, NumberActions: _numbers}
