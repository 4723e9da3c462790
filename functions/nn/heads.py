"""What the outputs of a policy's network mean: actions drawn from them, and how likely each was.

A class of agents has one of four heads. One choice: outputs are logits (or values, for agents that take the highest).
Several choices: logits, branch after branch, each branch chosen on its own. Numbers with a distribution: outputs are
the means of a Gaussian, whose log standard deviations are the head's *own* parameters, the same whatever is seen.
Numbers without one: tanh of the outputs.

Everything here is pure and works along the last axis: outputs ``[..., width]``, one choice ``[...]``, several
``[..., branches]``, numbers ``[..., d]``, log-probabilities and entropies ``[...]``. Results have the precision of the
outputs. Outputs of illegal choices must have been set to a large negative number before.

Numbers are recorded and learned from in *policy units*: what a Gaussian drew, before tanh or a cut brings it into
[-1, 1]; or the number in [-1, 1] that a deterministic policy gave. `to_environment` stretches them to the task's
bounds. The log-probability is that of what was drawn. The density of the squashed number has the factor 1 / (1 - tanh²)
beside it, which does not depend on the policy, so it cancels in ratios of probabilities and has no gradient.
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from functions.contract import BadRequest, Behaviour
from functions.environments.base import ActionArray, AgentClass, BoolArray, FloatArray
from functions.nn.continuous import Bounds, Deterministic, Gaussian, noisy
from functions.nn.discrete import Branches, HeadGradient, OneChoice, epsilon_greedy

Array = NDArray[Any]


class Head(Protocol):
    """How agents of a class act. Its `own` parameters are None in calls where it has none."""

    @property
    def width(self) -> int:
        """How many outputs the network has."""

    @property
    def own(self) -> int:
        """How many parameters the head has of its own."""

    def noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """What `draw` needs for as many actions as `shape` has places: ``[*shape]`` or ``[*shape, numbers]``."""

    def draw(self, outputs: Array, own: Array | None, noise: Array) -> tuple[ActionArray, Array | None]:
        """Actions, and the log-probability of each where there is a distribution."""

    def greedy(self, outputs: Array) -> ActionArray:
        """The most probable actions."""

    def to_environment(self, actions: ActionArray) -> ActionArray:
        """Recorded actions as the environment takes them."""


class Distribution(Head, Protocol):
    """A head whose actions have probabilities."""

    def log_probability(self, outputs: Array, own: Array | None, actions: ActionArray) -> Array:
        """In nats; of numbers, that of the density."""

    def log_probability_gradient(self, outputs: Array, own: Array | None, actions: ActionArray) -> HeadGradient:
        """d log-probability / d outputs and / d own."""

    def entropy(self, outputs: Array, own: Array | None) -> Array:
        """In nats; of numbers, the differential entropy of what is drawn."""

    def entropy_gradient(self, outputs: Array, own: Array | None) -> HeadGradient:
        """d entropy / d outputs and / d own."""


def distribution(kind: AgentClass, clipped: bool = False) -> Distribution:
    """The head of agents of this class whose actions are drawn; `clipped` is for numbers, see `Gaussian`."""
    if kind.continuous:
        return Gaussian(Bounds(kind.low, kind.high), clipped)
    return Branches(kind.branches) if kind.branches else OneChoice(kind.actions)


def head_of(kind: AgentClass, own: bool, clipped: bool = False) -> Head:
    """The head of agents of this class, whose network has parameters of the head's own or not."""
    return Deterministic(Bounds(kind.low, kind.high)) if kind.continuous and not own else distribution(kind, clipped)


def act(
    head: Head, outputs: Array, own: Array | None, noise: Array, behaviour: Behaviour, legal: BoolArray | None = None
) -> tuple[ActionArray, Array | None]:
    """Actions as `behaviour` says and, where they were drawn from a distribution, the log-probability of each.

    Noise is for numbers: who chooses does as the policy's distribution says. `legal` has the shape of `outputs`. Raises
    `BadRequest` for a behaviour that the head does not have.
    """
    require(head, behaviour)
    if behaviour.kind == "epsilon":
        return epsilon_greedy(outputs, noise, behaviour.amount, legal), None
    if behaviour.kind == "noise" and isinstance(head, Deterministic):
        return noisy(head.greedy(outputs), noise, behaviour.amount), None
    return head.draw(outputs, own, noise)


def require(head: Head, behaviour: Behaviour) -> None:
    """Raises `BadRequest` when agents with this head cannot behave so."""
    if behaviour.kind == "epsilon" and not isinstance(head, OneChoice):
        raise BadRequest("the behaviour epsilon is for agents that make one choice only")
    if behaviour.kind == "noise" and isinstance(head, Gaussian):
        raise BadRequest("the behaviour noise is not for policies that draw numbers from a distribution")
