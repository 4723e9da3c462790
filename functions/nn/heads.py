"""Action heads: how a policy network's outputs become actions, log-probabilities and entropies.

A class of agents has one of five heads. `OneChoice` (discrete): outputs are logits, or action values. `Branches`
(multi-discrete): the logits of several independent choices side by side. `Gaussian` (continuous, stochastic): outputs
are means. The log standard deviations are parameters that do not depend on the observation. `SquashedGaussian`
(continuous, stochastic): outputs are means and log standard deviations. `Deterministic` (continuous): tanh of the
outputs.

Everything here is pure and works along the last axis: outputs ``[..., width]``, one choice ``[...]``, several
``[..., branches]``, continuous actions ``[..., d]``, log-probabilities and entropies ``[...]``. Results have the
precision of the outputs. The logits of illegal actions must be masked before (`losses.mask_logits`).

Continuous actions are recorded and learned from in *policy units*: the sample of a `Gaussian` before tanh or clipping,
and the number in [-1, 1] of the other two. `to_environment` rescales them to the task's bounds. The log-probability of
a `Gaussian` is the sample's. The density of the squashed action has the further factor 1 / (1 - tanh²). It is
independent of the policy, so it cancels in probability ratios and has no gradient.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import ActionArray, AgentClass, BoolArray, FloatArray
from marless.functions.errors import BadRequest
from marless.functions.messages.actor import Behaviour
from marless.functions.native.arithmetic import NUMPY, Arithmetic
from marless.functions.nn.continuous import Bounds, Deterministic, Gaussian, SquashedGaussian, noisy
from marless.functions.nn.discrete import Branches, HeadGradient, OneChoice, epsilon_greedy

Array = NDArray[Any]


class Head(Protocol):
    """The action head of a class of agents. Only Gaussian heads have a `log_std` ``[..., d]``. Others get None."""

    @property
    def width(self) -> int:
        """The number of the network's outputs."""

    @property
    def log_std_size(self) -> int:
        """The number of log standard deviations, above 0 only for Gaussian heads."""

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """The random numbers that `draw` needs for ``[*shape]`` actions: ``[*shape]`` or ``[*shape, numbers]``."""

    def draw(self, outputs: Array, log_std: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """Actions, and their log-probabilities if the head has a distribution."""

    def greedy(self, outputs: Array) -> ActionArray:
        """The most probable actions."""

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """Recorded actions, rescaled for the environment."""


class Distribution(Head, Protocol):
    """A stochastic head, which computes with the `arithmetic`."""

    @property
    def arithmetic(self) -> Arithmetic: ...

    def log_probability(self, outputs: Array, log_std: Array | None, actions: ActionArray) -> Array:
        """In nats. For continuous actions, the log-density."""

    def log_probability_gradient(self, outputs: Array, log_std: Array | None, actions: ActionArray) -> HeadGradient:
        """d log-probability / d outputs and / d log_std."""

    def entropy(self, outputs: Array, log_std: Array | None) -> Array:
        """The entropy in nats. Continuous samples have a differential entropy."""

    def entropy_gradient(self, outputs: Array, log_std: Array | None) -> HeadGradient:
        """d entropy / d outputs and / d log_std."""


def distribution(kind: AgentClass, clipped: bool = False, arithmetic: Arithmetic = NUMPY) -> Distribution:
    """Return the stochastic head of this class of agents. `clipped` is for continuous actions, see `Gaussian`."""
    if kind.continuous:
        return Gaussian(Bounds(kind.low, kind.high), clipped, arithmetic)
    if kind.branches:
        return Branches(kind.branches, arithmetic=arithmetic)
    return OneChoice(kind.actions, arithmetic=arithmetic)


def head_of(kind: AgentClass, stochastic: bool, clips_actions: bool = False) -> Head:
    """Return the head of this class of agents. Without `stochastic`, continuous actions are deterministic."""
    if kind.continuous and not stochastic:
        return Deterministic(Bounds(kind.low, kind.high))
    return distribution(kind, clips_actions)


def outputs_of(kind: AgentClass, outputs: int, log_std: Array | None) -> int:
    """The required outputs of a policy network of this class, given that it has `outputs`: one for each action. A
    continuous action has two, unless the parameter `log_std` is its standard deviation."""
    is_squashed = kind.continuous and log_std is None and outputs == 2 * kind.actions
    return outputs if is_squashed else kind.actions


def head_of_network(kind: AgentClass, outputs: int, log_std: Array | None, clips_actions: bool) -> Head:
    """The head of a policy network with this many outputs and these parameters of a Gaussian, or None."""
    if kind.continuous and outputs == 2 * kind.actions:
        return SquashedGaussian(Bounds(kind.low, kind.high))
    return head_of(kind, log_std is not None, clips_actions)


def act(
    head: Head,
    outputs: Array,
    log_std: Array | None,
    noise: Array,
    behaviour: Behaviour,
    legal: BoolArray | None = None,
) -> tuple[ActionArray, Array | None]:
    """Actions of the exploration `behaviour` and, if they were sampled from the policy, their log-probabilities.

    The behaviour "noise" only affects deterministic heads. Others sample from the policy. `legal` has the shape of
    `outputs`. Raises `BadRequest` for a behaviour that the head does not support.
    """
    require(head, behaviour)
    if behaviour.kind == "epsilon":
        return epsilon_greedy(outputs, noise, behaviour.amount, legal), None
    if behaviour.kind == "noise" and isinstance(head, Deterministic):
        return noisy(head.greedy(outputs), noise, behaviour.amount), None
    return head.draw(outputs, log_std, noise)


def require(head: Head, behaviour: Behaviour) -> None:
    """Raises `BadRequest` when the head does not support the behaviour."""
    if behaviour.kind == "epsilon" and not isinstance(head, OneChoice):
        raise BadRequest("the behaviour epsilon is for agents that make one choice only")
    if behaviour.kind == "noise" and isinstance(head, Gaussian | SquashedGaussian):
        raise BadRequest("the behaviour noise is not for policies that draw numbers from a distribution")
