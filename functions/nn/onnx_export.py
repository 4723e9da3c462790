"""A module as a graph for ONNX Runtime, so that actors act without torch.

The weights are inputs of the graph, so that it is exported once a run and serves all rounds.
"""

import logging
import warnings
from functools import cache

import onnx
import torch

from marless.functions.errors import BadRequest
from marless.functions.nn.shape import PARAMETERS, NetworkShape
from marless.functions.nn.torch_modules import build

OPSET = 18


@cache
def export(shape: NetworkShape) -> bytes:
    """The graph of ``module(observation, rest)`` for any number of rows. Raises `BadRequest` if ONNX lacks parts."""
    module = build(shape)
    rows = torch.export.Dim("rows")
    inputs = torch.zeros(2, *shape.observation), torch.zeros(2, shape.rest)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logging.getLogger("torch.onnx").setLevel(logging.ERROR)
            program = torch.onnx.export(
                module,
                inputs,
                dynamo=True,
                input_names=["observation", "rest"],
                output_names=["outputs"],
                dynamic_shapes=({0: rows}, {0: rows}),
                opset_version=OPSET,
                optimize=False,  # folding would rename or merge weights
                verbose=False,
            )
    except Exception as error:
        cause = error.__cause__ or error  # torch's own sentence says that it failed, and not why
        line = f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
        raise BadRequest(
            f"algorithm.network={shape.factory} cannot be exported for actors as forward(observation, rest): {line}"
        ) from error
    assert program is not None
    if any(value.type.tensor_type.shape.dim[0].HasField("dim_value") for value in program.model_proto.graph.input):
        raise BadRequest(
            f"algorithm.network={shape.factory} cannot be exported for actors: it would take {len(inputs[0])} rows and"
            " no other number of them; take that number from a shape (x.shape[0]), and not by len(x)"
        )
    return _with_weights_as_inputs(program.model_proto, {name for name, _ in module.named_parameters()})


def _with_weights_as_inputs(model: onnx.ModelProto, parameters: set[str]) -> bytes:
    graph = model.graph
    constants = [tensor for tensor in graph.initializer if tensor.name not in parameters]
    new_names = {tensor.name: PARAMETERS + tensor.name for tensor in graph.initializer if tensor.name in parameters}
    for tensor in graph.initializer:
        if tensor.name in new_names:
            kind = onnx.helper.make_tensor_value_info(new_names[tensor.name], tensor.data_type, list(tensor.dims))
            graph.input.append(kind)
    del graph.initializer[:]
    graph.initializer.extend(constants)
    for node in graph.node:
        node.input[:] = [new_names.get(name, name) for name in node.input]
    _strip(model)
    return bytes(model.SerializeToString(deterministic=True))


def _strip(model: onnx.ModelProto) -> None:
    """Removes where each node came from, which is most of the bytes and differs between machines."""
    for holder in (model, model.graph, *model.functions):
        holder.ClearField("metadata_props")
        holder.ClearField("doc_string")
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            node.ClearField("metadata_props")
            node.ClearField("doc_string")
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        value.ClearField("metadata_props")
        value.ClearField("doc_string")
