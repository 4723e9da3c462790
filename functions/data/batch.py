"""A round's trajectories as the stages read them: rollouts joined in order along the axis of environments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.data.trajectory import EARLIER, rollout_prefix, tensors_below
from marless.functions.environments.base import EnvSpec

Array = NDArray[Any]


@dataclass(frozen=True)
class Batch:
    """T steps of E environments, equally many of each rollout. N agents in classes of n.

    Observations, actions and rewards of dead agents are 0, also if the environment returned others (`living`).
    """

    spec: EnvSpec
    rollouts: int
    # Per class ``[n, T, E, F]``.
    observations: tuple[Array, ...]
    # Per class ``[n, T, E]``, with one more axis for several choices or continuous actions. See
    # `marless.functions.nn.heads`.
    actions: tuple[Array, ...]
    # Per class ``[n, T, E]``, or None if actions did not come from a distribution.
    log_probability: tuple[Array, ...] | None
    # Per class ``[n, T, E, actions]``.
    masks: tuple[Array, ...] | None
    # ``[N, T, E]`` each.
    rewards: Array
    terminated: Array
    alive: Array
    # ``[T, E]``.
    ended: Array
    # ``[T, E, S]``: the env task's global state, or the joined observations.
    state: Array
    # (t, e) of the K steps that end with a cut of an episode or of the rollout ``[K, 2]``.
    cut: Array
    # Observations, masks and state after these steps: per class ``[n, K, F]`` and ``[n, K, actions]``, and ``[K, S]``.
    cut_observations: tuple[Array, ...]
    cut_masks: tuple[Array, ...] | None
    cut_state: Array

    def place(self, agent: int) -> tuple[int, int]:
        """The agent's class and its position in the class."""
        for index, kind in enumerate(self.spec.classes):
            if agent in kind.agents:
                return index, kind.agents.index(agent)
        raise ValueError(f"no agent {agent}")

    def of(self, arrays: tuple[Array, ...], agent: int) -> Array:
        """An agent's own slice of a per-class tuple."""
        index, position = self.place(agent)
        return np.asarray(arrays[index][position])


def join(spec: EnvSpec, tensors: Mapping[str, Array], rollouts: Sequence[int]) -> Batch:
    """Joins the tensors of `rollouts`, which `marless.functions.data.trajectory` names."""
    classes = range(len(spec.classes))
    rollout_tensors = [living(spec, tensors_below(tensors, f"{rollout_prefix(rollout)}/")) for rollout in rollouts]

    def concatenate(name: str, axis: int) -> Array:
        parts = [rollout[name] for rollout in rollout_tensors]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)

    observations = tuple(concatenate(f"observation/{c}", 2) for c in classes)
    cut_observations = tuple(concatenate(f"cut_observation/{c}", 1) for c in classes)
    own_state = bool(spec.state_size)
    has_log_probability = "log_probability/0" in rollout_tensors[0]
    return Batch(
        spec=spec,
        rollouts=len(rollouts),
        observations=observations,
        actions=tuple(concatenate(f"action/{c}", 2) for c in classes),
        log_probability=tuple(concatenate(f"log_probability/{c}", 2) for c in classes) if has_log_probability else None,
        masks=tuple(concatenate(f"mask/{c}", 2) for c in classes) if spec.masked else None,
        rewards=concatenate("reward", 2),
        terminated=concatenate("terminated", 2),
        alive=concatenate("alive", 2),
        ended=concatenate("ended", 1),
        state=concatenate("state", 1) if own_state else side_by_side(spec, observations),
        cut=_cuts(rollout_tensors),
        cut_observations=cut_observations,
        cut_masks=tuple(concatenate(f"cut_mask/{c}", 1) for c in classes) if spec.masked else None,
        cut_state=concatenate("cut_state", 0) if own_state else side_by_side(spec, cut_observations),
    )


def side_by_side(spec: EnvSpec, observations: tuple[Array, ...]) -> Array:
    """All agents' observations, agent by agent, as one state: ``[n, ..., F]`` per class to ``[..., ΣF]``."""
    by_agent = {
        agent: observations[index][position]
        for index, kind in enumerate(spec.classes)
        for position, agent in enumerate(kind.agents)
    }
    return np.concatenate([by_agent[agent] for agent in range(len(spec.agents))], axis=-1)


def living(spec: EnvSpec, rollout: Mapping[str, Array]) -> Mapping[str, Array]:
    """A rollout with zeros for observations, actions and rewards of dead agents. Masks stay.

    Agents that played by earlier policies keep theirs, which a central critic sees, and count as dead: nothing is
    learned from their rows.
    """
    rollout, alive = dict(rollout), rollout["alive"]
    if EARLIER in rollout:
        rollout["alive"] = alive & ~rollout.pop(EARLIER)[:, None, None]
    bootstraps = (alive & ~rollout["terminated"])[:, rollout["cut"][:, 0], rollout["cut"][:, 1]]
    if alive.all() and bootstraps.all():
        return rollout
    masked_rollout = {**rollout, "reward": _values_where(alive, rollout["reward"])}
    for index, kind in enumerate(spec.classes):
        agents = list(kind.agents)
        for name, rows in (("observation", alive), ("action", alive), ("cut_observation", bootstraps)):
            masked_rollout[f"{name}/{index}"] = _values_where(rows[agents], rollout[f"{name}/{index}"])
    return masked_rollout


def _values_where(rows: Array, values: Array) -> Array:
    """`values` ``[n, ..., F]`` in the `rows` ``[n, ...]``, and zeros elsewhere."""
    wide = rows.reshape(*rows.shape, *[1] * (values.ndim - rows.ndim))
    return np.where(wide, values, values.dtype.type(0))


def _cuts(rollout_tensors: Sequence[Mapping[str, Array]]) -> Array:
    """The (t, e) pairs of all rollouts, e counted over the joined environments."""
    parts, first = [], 0
    for rollout in rollout_tensors:
        parts.append(rollout["cut"] + np.array([0, first]))
        first += rollout["ended"].shape[1]
    return np.concatenate(parts)
