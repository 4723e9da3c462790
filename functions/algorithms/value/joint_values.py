"""Joint values by a mixing network, the common part of QMIX and QPLEX.

An update has two phases: the mixing network trains on the agents' utilities, then their networks on its gradients.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.advantages import next_values
from marless.functions.algorithms.agent_inputs import leads_side
from marless.functions.algorithms.engine import Moments, OptimiserSettings, engine_of
from marless.functions.algorithms.metrics import OWN, due
from marless.functions.algorithms.new_networks import as_target
from marless.functions.algorithms.off_policy.overestimation import overestimation
from marless.functions.algorithms.off_policy.replay_minibatch import joint_signal, learning_signal
from marless.functions.algorithms.off_policy.reward_scale import value_scale
from marless.functions.algorithms.off_policy.target_networks import rows_of, update_target
from marless.functions.algorithms.off_policy.td import multi_step_returns
from marless.functions.algorithms.stage import Context, StageResult
from marless.functions.algorithms.trainable import moments
from marless.functions.algorithms.value import decomposition_stages
from marless.functions.algorithms.value.decomposition_stages import Mixing, SideUtilities, mixed_agents
from marless.functions.algorithms.value.hypernetworks import HypernetworkMixer
from marless.functions.algorithms.value.specs import MixedConfig
from marless.functions.environments.base import EnvSpec
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.layers import Array
from marless.functions.randomness import generator


class MixingNetwork(Protocol):
    """A side's mixing network. `forward` takes state, utilities, the flags of living agents, and extra inputs."""

    def to_tensors(self, flat: Array, prefix: str, /) -> dict[str, Array]:
        """The network's tensors by name. Parameters are views of `flat`."""

    def forward(self, flat: Array, /, *args: Any, **kwargs: Any) -> tuple[Array, Any]:
        """The joint values ``[B]`` and the trace."""

    def backward(self, flat: Array, trace: Any, grad_output: Array, /) -> tuple[Array, Array]:
        """The parameters' gradient and d loss / d utilities ``[B, n]``, given d loss / d joint values ``[B]``."""


C = TypeVar("C", bound=MixedConfig)


class MixedValue(Generic[C]):
    """The stage `mix` and the state of an algorithm with a mixing network for the joint value.

    `network` makes the network of the side that a group leads.
    """

    def __init__(self, network: Callable[[EnvSpec, Team, C, int], HypernetworkMixer]) -> None:
        self.network = network

    def initial_tensors(
        self, spec: EnvSpec, team: Team, config: C, group: int, rng: np.random.Generator
    ) -> Mapping[str, NDArray[Any]]:
        """A new mixing network of the side that `group` leads, by the names of its tensors."""
        mixer = self.network(spec, team, config, group)
        return mixer.to_tensors(mixer.hypernetworks.initialise(rng), f"mixer/{group_name(group)}")

    def load(self, context: Context[C], prefix: str) -> tuple[MixingNetwork, Array]:
        """A stored mixing network and its flat vector (a copy)."""
        raise NotImplementedError

    def extra_inputs(self, context: Context[C], side: list[int], data: str) -> tuple[Array, ...]:
        """The network's extra inputs at the steps, after state, utilities and living agents, ``[B, ...]``."""
        return ()

    def following(self, context: Context[C], side: list[int], data: str) -> tuple[Array, ...]:
        """The same after the steps."""
        return ()

    def initialise(self, spec: EnvSpec, team: Team, config: C, seed: int, group: int) -> dict[str, Array]:
        """The group's network at round 0, and the side's mixing network if it is the side's first group."""
        tensors, name = decomposition_stages.initialise(spec, team, config, seed, group), group_name(group)
        if not leads_side(spec, team, group):
            return tensors
        mixer = self.initial_tensors(spec, team, config, group, generator(seed, "initialise", "mixer", group))
        parameters = sum(array.size for array in mixer.values() if array.dtype.kind == "f")
        optimiser = moments(f"mixer_optimiser/{name}", parameters)
        return {**tensors, **mixer, **as_target(mixer, "mixer", "mixer_target"), **optimiser}

    def mix(self, context: Context[C], group: int) -> StageResult:
        """One step of the side's mixing network, and the loss's gradient at its agents' utilities before that step."""
        if not (side := mixed_agents(context, group)):
            return StageResult({}, {})
        metrics = self._overestimation(context, side, group) if due(context) else {}
        mixing, config, name = Mixing.load(context, group, side), context.config, group_name(group)
        minibatch, signal, rewards = mixing.context, mixing.signal, mixing.rewards
        batch, alive = minibatch.batch, minibatch.batch.alive[side]
        future = self._future(minibatch, name, mixing.utilities, side) + rewards.offset
        targets = multi_step_returns(rewards.rewards, signal.terminal, batch.ended, config).targets(future)
        mixer, flat = self.load(minibatch, f"mixer/{name}")
        joint, trace = mixer.forward(flat, *self._inputs(minibatch, side, mixing.utilities))
        joint = joint.reshape(targets.shape) + rewards.offset
        loss = mixing.loss(joint, targets)
        gradient, by_utilities = mixer.backward(flat, trace, loss.grad_output.ravel())
        tensors, norm = _train_step(minibatch, name, mixer, flat, gradient)
        if due(context):
            metrics |= {"mixer_grad_norm": norm, **mixing.metrics(loss, joint)}
        tensors |= mixing.group_tensors(loss, by_utilities.T.reshape(alive.shape))
        return StageResult({**tensors, f"normaliser/{name}": rewards.normaliser}, metrics)

    def _overestimation(self, context: Context[C], side: list[int], group: int) -> dict[str, float]:
        batch, name, utilities = context.batch, group_name(group), SideUtilities.load(context, side, OWN)
        mixer, flat = self.load(context, f"mixer/{name}")
        joint, _ = mixer.forward(flat, *self._inputs(context, side, utilities, OWN))
        offset = value_scale(context, name).offset
        joint = joint.reshape(batch.ended.shape) + offset
        future = self._future(context, name, utilities, side, OWN) + offset
        return overestimation(context, name, joint, future, joint_signal(context, side))

    def _inputs(
        self, context: Context[C], side: list[int], utilities: SideUtilities, data: str = ""
    ) -> tuple[Array, ...]:
        batch = context.batch
        common_inputs = rows_of(batch.state), columns(utilities.q_taken), columns(batch.alive[side])
        return (*common_inputs, *self.extra_inputs(context, side, data))

    def _future(
        self, context: Context[C], name: str, utilities: SideUtilities, side: list[int], data: str = ""
    ) -> Array:
        """The target network's joint value ``[T, E]`` of the next actions of the agents that are still alive."""
        batch = context.batch
        alive_next = batch.alive[side] & ~learning_signal(context, side, team=False).terminal
        mixer, flat = self.load(context, f"mixer_target/{name}")
        state = next_values(batch.state[None], batch.cut_state[None], batch.cut)[0]
        inputs = rows_of(state), columns(utilities.future), columns(alive_next), *self.following(context, side, data)
        joint, _ = mixer.forward(flat, *inputs)
        return np.asarray(joint.reshape(batch.ended.shape))


def columns(by_agent: Array) -> Array:
    """``[n, T, E]`` as ``[T * E, n]``."""
    return by_agent.reshape(len(by_agent), -1).T


def _train_step(
    context: Context[C], name: str, mixer: MixingNetwork, flat: Array, gradient: Array
) -> tuple[dict[str, Array], float]:
    """The mixing network, its moments and its target after a step, and the gradient's norm."""
    config, prefix = context.config, f"mixer_optimiser/{name}"
    first, second, steps = (context.tensors[f"{prefix}/{moment}"] for moment in Moments._fields)
    settings = OptimiserSettings(config.lr, config.adam_eps, config.max_grad_norm)
    optimiser = engine_of(config).optimiser(flat, settings, Moments(first, second, int(steps[0])))
    norm = optimiser.step(gradient)
    online = mixer.to_tensors(flat, f"mixer/{name}")
    state = {
        "first": optimiser.first,
        "second": optimiser.second,
        "steps": np.array([optimiser.steps], np.int64),
    }
    return {
        **online,
        **{f"{prefix}/{moment}": array for moment, array in state.items()},
        **update_target(context, online, "mixer", "mixer_target", name),
    }, norm
