"""Weights and observations to actions, in numpy only: what actors, evaluators and users play with.

A `Policy` acts for all agents of a vectorised environment. The networks of the agents of one class are stacked, so
that a step is a few batched matrix products; each agent's product keeps its own rows, so the bytes an agent's action
depends on are the same whoever plays beside it. So do blocks of copies that are played side by side: the last bits of
a product depend on its number of rows, hence every block has a product of its own.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.losses import ILLEGAL
from functions.algorithms.networks import Layer, layers_of
from functions.contract import BadRequest, Team
from functions.environments.base import ActionArray, FloatArray, Observation, Spec
from functions.keys import group_name


@dataclass(frozen=True)
class Choice:
    """Actions per class ``[n, E]`` and the log-probability ``[n, E]`` float32 of each under the policy."""

    actions: tuple[ActionArray, ...]
    log_probability: tuple[FloatArray, ...]


@dataclass(frozen=True)
class StackedMlp:
    """The networks of a class's n agents: weights ``[n, in, out]`` and biases ``[n, 1, out]`` per layer.

    Axes may stand between n and the others, for products that are kept apart; values then have them too.
    """

    weights: tuple[FloatArray, ...]
    biases: tuple[FloatArray, ...]

    def logits(self, values: FloatArray) -> FloatArray:
        """``[n, E, features] -> [n, E, actions]``."""
        last = len(self.weights) - 1
        hidden = values
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = np.matmul(hidden, weight)
            hidden += bias
            if index < last:
                np.tanh(hidden, out=hidden)
        return hidden


class Policy:
    """All agents' policies; stateless (a recurrent policy would carry its state between `sample` calls)."""

    def __init__(self, spec: Spec, team: Team, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.spec = spec
        self._stacks = tuple(_stack(spec, team, tensors, index) for index in range(len(spec.classes)))

    def logits(self, observation: Observation, blocks: int = 1) -> list[FloatArray]:
        """Per class ``[n, E, actions]``, illegal actions at a large negative number.

        Each of the `blocks` equal parts of E has the bytes that it has alone.
        """
        found = []
        for index, stack in enumerate(self._stacks):
            rows, agents, features = observation.values[index].shape
            apart = observation.values[index].swapaxes(0, 1).reshape(agents, blocks, rows // blocks, features)
            logits = stack.logits(apart).reshape(agents, rows, -1)
            if observation.masks is not None:
                logits = np.where(observation.masks[index].swapaxes(0, 1), logits, np.float32(ILLEGAL))
            found.append(logits)
        return found

    def sample(self, observation: Observation, uniforms: tuple[FloatArray, ...], blocks: int = 1) -> Choice:
        """Draws by inverting the distribution function at `uniforms`, per class ``[n, E]`` float32 in [0, 1).

        An illegal action has probability exactly 0 and cannot be drawn, because a float32 below 1 times the total stays
        below the total.
        """
        actions, log_probability = [], []
        for logits, uniform in zip(self.logits(observation, blocks), uniforms, strict=True):
            chosen, logp = draw(logits, uniform)
            actions.append(chosen)
            log_probability.append(logp)
        return Choice(tuple(actions), tuple(log_probability))

    def greedy(self, observation: Observation) -> tuple[ActionArray, ...]:
        """The most probable actions, per class ``[n, E]``."""
        return tuple(logits.argmax(axis=-1) for logits in self.logits(observation))


def draw(logits: FloatArray, uniform: FloatArray) -> tuple[ActionArray, FloatArray]:
    """Actions ``[n, E]`` and their log-probabilities for logits ``[n, E, actions]``.

    Works action by action on whole ``[n, E]`` planes: there are few actions and many rows.
    """
    planes = np.array(logits.transpose(2, 0, 1), order="C")  # a copy, even of a single row
    planes -= planes.max(axis=0)
    cumulative = np.exp(planes)
    for before, here in itertools.pairwise(cumulative):  # numpy's accumulate is many times slower along this axis
        here += before
    total = cumulative[-1]
    passed = cumulative <= uniform * total
    actions = passed.view(np.int8).sum(axis=0, dtype=np.int16).astype(np.int64)
    places = actions * uniform.size + np.arange(uniform.size).reshape(uniform.shape)
    return actions, planes.reshape(-1).take(places) - np.log(total)


def _stack(spec: Spec, team: Team, tensors: Mapping[str, NDArray[Any]], index: int) -> StackedMlp:
    """Gathers a class's networks, with an axis for blocks of copies.

    The one-hot identity is a constant input, so it folds into the first bias.
    """
    agents = spec.classes[index].agents
    width = spec.classes[index].observation_size
    networks = [_network(tensors, team.groups[agent]) for agent in agents]
    _require_fit(spec, team, index, networks)
    weights, biases = [], []
    for layer in range(len(networks[0])):
        weight = np.stack([network[layer][0] for network in networks])
        bias = np.stack([network[layer][1] for network in networks])
        if layer == 0 and team.identity:
            bias = bias + weight[np.arange(len(agents)), width + np.array(agents)]
            weight = np.ascontiguousarray(weight[:, :width])
        weights.append(weight[:, None])
        biases.append(bias[:, None, None])
    return StackedMlp(tuple(weights), tuple(biases))


def _network(tensors: Mapping[str, NDArray[Any]], group: int) -> list[Layer]:
    try:
        return layers_of(tensors, f"policy/{group_name(group)}")
    except KeyError as error:
        raise BadRequest(f"the task's policies hold no network for group {group_name(group)}") from error


def _require_fit(spec: Spec, team: Team, index: int, networks: list[list[Layer]]) -> None:
    """Raises `BadRequest` when a network was made for other spaces than the class has."""
    kind = spec.classes[index]
    due = (kind.observation_size + (len(spec.agents) if team.identity else 0), kind.actions)
    for agent, layers in zip(kind.agents, networks, strict=True):
        made = (layers[0][0].shape[0], layers[-1][0].shape[1])
        if made != due:
            raise BadRequest(
                f"the policy of {spec.agents[agent]} takes {made[0]} numbers and knows {made[1]} actions;"
                f" the task gives {due[0]} numbers and {due[1]} actions"
            )


def as_environment_actions(actions: tuple[ActionArray, ...]) -> tuple[ActionArray, ...]:
    """``[n, E]`` per class to the environment's ``[E, n]``."""
    return tuple(part.swapaxes(0, 1) for part in actions)
