"""The networks of a class's agents that a factory made, for acting: graphs run by ONNX Runtime, without torch."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import AgentClass, EnvSpec, FloatArray
from marless.functions.errors import BadRequest, MissingExtra
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.heads import Head, head_of_network, outputs_of
from marless.functions.nn.shape import CLIPPED, GRAPH, PARAMETERS, SHAPE, NetworkShape

# The most sessions that a process keeps, for a run's groups.
KEPT = 16


class Graph(NamedTuple):
    """A session of ONNX Runtime, and the inputs that its graph needs."""

    session: Any
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class OnnxNetworks:
    """The networks of a class's n agents. Every agent and every block of environments has its own call, so an agent's
    actions do not depend on other agents and blocks."""

    # ``[H, W, C]`` or ``[N, features]``, as this task has them.
    observation: tuple[int, ...]
    outputs_size: int
    graphs: tuple["Graph", ...]
    weights: tuple[Mapping[str, FloatArray], ...]
    # ``[n, rest]``: the agents' one-hots, if the team has identities.
    rest: FloatArray
    log_std: FloatArray | None
    clips_actions: bool
    recurrent = False

    def head(self, kind: AgentClass) -> Head:
        """The action head of agents of the class."""
        return head_of_network(kind, self.outputs_size, self.log_std, self.clips_actions)

    def start(self, num_envs: int) -> None:
        """There is no hidden state."""

    def outputs(self, inputs: FloatArray, hidden: FloatArray | None) -> tuple[FloatArray, None]:
        """Outputs ``[n, blocks, E, width]`` of inputs ``[n, blocks, E, F]``."""
        agents, blocks, rows = inputs.shape[:3]
        outputs = np.empty((agents, blocks, rows, self.outputs_size), np.float32)
        width = math.prod(self.observation)
        for agent, (graph, weights) in enumerate(zip(self.graphs, self.weights, strict=True)):
            one_hots = np.tile(self.rest[agent], (rows, 1))
            for block in range(blocks):
                observation, others = inputs[agent, block, :, :width], inputs[agent, block, :, width:]
                fed = {
                    "observation": np.ascontiguousarray(observation).reshape(rows, *self.observation),
                    "rest": np.concatenate([others, one_hots], axis=1),
                    **weights,
                }
                outputs[agent, block] = graph.session.run(None, {name: fed[name] for name in graph.inputs})[0]
        return outputs, None


def made_by_factory(team: Team, tensors: Mapping[str, NDArray[Any]], agent: int) -> bool:
    """Return True if a factory made the policy of the agent."""
    return f"policy/{group_name(team.groups[agent])}/{GRAPH}" in tensors


def onnx_networks(spec: EnvSpec, team: Team, tensors: Mapping[str, NDArray[Any]], index: int) -> OnnxNetworks:
    """The networks of a class. Raises `BadRequest` for networks that do not fit its spaces, `MissingExtra` if ONNX
    Runtime is missing."""
    kind = spec.classes[index]
    prefixes = [f"policy/{group_name(team.groups[agent])}/" for agent in kind.agents]
    try:
        networks = [_tensors_of(tensors, prefix) for prefix in prefixes]
        shapes = [NetworkShape.decode(network[SHAPE]) for network in networks]
        graphs = tuple(_graph(network[GRAPH].tobytes()) for network in networks)
    except (KeyError, ValueError) as error:
        raise BadRequest(f"the task's policies hold no network of a factory for class {kind.name}: {error}") from error
    identity = len(spec.agents) if team.identity else 0
    observation = kind.observation_shape or (kind.observation_size,)
    rest = kind.observation_size - math.prod(observation) + identity
    outputs = outputs_of(kind, shapes[0].outputs, networks[0].get("log_std"))
    for agent, shape in zip(kind.agents, shapes, strict=True):
        _require_spaces(spec.agents[agent], kind, shape, rest, outputs)
    log_stds = [network["log_std"] for network in networks if "log_std" in network]
    return OnnxNetworks(
        observation=observation,
        outputs_size=outputs,
        graphs=graphs,
        weights=tuple(
            {name: np.asarray(array, np.float32) for name, array in network.items() if name.startswith(PARAMETERS)}
            for network in networks
        ),
        rest=np.eye(len(spec.agents), dtype=np.float32)[list(kind.agents), :identity],
        log_std=np.stack(log_stds)[:, None] if log_stds else None,
        clips_actions=CLIPPED in networks[0],
    )


def _tensors_of(tensors: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def _require_spaces(name: str, kind: AgentClass, shape: NetworkShape, rest: int, outputs: int) -> None:
    observation = kind.observation_shape or (kind.observation_size,)
    if observation != shape.observation or (shape.rest, shape.outputs) != (rest, outputs):
        raise BadRequest(
            f"the policy of {name} takes observations {list(shape.observation)} and {shape.rest} further numbers, and"
            f" knows {shape.outputs} actions; the task gives {list(observation)}, {rest} and {kind.actions}"
        )


@lru_cache(KEPT)
def _graph(body: bytes) -> Graph:
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise MissingExtra("algorithm.network acts by ONNX Runtime: pip install 'marless[networks]'") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(body, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise BadRequest(f"a policy's graph cannot be loaded: {' '.join(str(error).split())}") from error
    return Graph(session, tuple(input.name for input in session.get_inputs()))
