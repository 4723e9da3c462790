"""A round's trajectories as the stages read them: all units joined along the axis of copies, in the order of units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.data.trajectory import named, rollout_prefix
from functions.environments.base import EnvSpec

Array = NDArray[Any]


@dataclass(frozen=True)
class Batch:
    """T steps of E copies, those of unit after unit and equally many of each; N agents in classes of n.

    Per class: `observations` ``[n, T, E, F]``; `actions` ``[n, T, E]``, with one more axis for several choices or
    numbers (see `functions.nn.heads`); `log_probability` ``[n, T, E]``, or none where agents did not act as a
    distribution says; `masks` ``[n, T, E, actions]`` or none. Over all agents: `rewards`, `terminated`, `alive`
    ``[N, T, E]``. `ended` ``[T, E]``. `state` ``[T, E, S]`` is the task's global state, or the joined observations.
    Where an episode or the unit was cut, `cut` ``[K, 2]`` holds (t, e) and `cut_observations` ``[n, K, F]``,
    `cut_masks` ``[n, K, actions]`` or none, and `cut_state` ``[K, S]`` what came next. What agents that are gone saw,
    did and got is 0, whatever the environment says of them (`living`).
    """

    spec: EnvSpec
    rollouts: int
    observations: tuple[Array, ...]
    actions: tuple[Array, ...]
    log_probability: tuple[Array, ...] | None
    masks: tuple[Array, ...] | None
    rewards: Array
    terminated: Array
    alive: Array
    ended: Array
    state: Array
    cut: Array
    cut_observations: tuple[Array, ...]
    cut_masks: tuple[Array, ...] | None
    cut_state: Array

    def place(self, agent: int) -> tuple[int, int]:
        """The agent's class and its position in it."""
        for index, kind in enumerate(self.spec.classes):
            if agent in kind.agents:
                return index, kind.agents.index(agent)
        raise ValueError(f"no agent {agent}")

    def of(self, arrays: tuple[Array, ...], agent: int) -> Array:
        """An agent's own slice of a per-class tuple."""
        index, position = self.place(agent)
        return np.asarray(arrays[index][position])


def join(spec: EnvSpec, tensors: Mapping[str, Array], rollouts: Sequence[int]) -> Batch:
    """Joins the units' tensors (named as `functions.data.trajectory` names them)."""
    classes = range(len(spec.classes))
    played = [living(spec, named(tensors, f"{rollout_prefix(rollout)}/")) for rollout in rollouts]

    def joined(name: str, axis: int) -> Array:
        parts = [rollout[name] for rollout in played]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)

    observations = tuple(joined(f"observation/{c}", 2) for c in classes)
    cut_observations = tuple(joined(f"cut_observation/{c}", 1) for c in classes)
    own_state = bool(spec.state_size)
    drawn = "log_probability/0" in played[0]
    return Batch(
        spec=spec,
        rollouts=len(rollouts),
        observations=observations,
        actions=tuple(joined(f"action/{c}", 2) for c in classes),
        log_probability=tuple(joined(f"log_probability/{c}", 2) for c in classes) if drawn else None,
        masks=tuple(joined(f"mask/{c}", 2) for c in classes) if spec.masked else None,
        rewards=joined("reward", 2),
        terminated=joined("terminated", 2),
        alive=joined("alive", 2),
        ended=joined("ended", 1),
        state=joined("state", 1) if own_state else side_by_side(spec, observations),
        cut=_cuts(played),
        cut_observations=cut_observations,
        cut_masks=tuple(joined(f"cut_mask/{c}", 1) for c in classes) if spec.masked else None,
        cut_state=joined("cut_state", 0) if own_state else side_by_side(spec, cut_observations),
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
    """A unit with zeros for what agents that are gone saw, did and got, so that it counts nowhere; masks stay."""
    there = rollout["alive"]
    left = (there & ~rollout["terminated"])[:, rollout["cut"][:, 0], rollout["cut"][:, 1]]
    if there.all() and left.all():
        return rollout
    found = {**rollout, "reward": _where(there, rollout["reward"])}
    for index, kind in enumerate(spec.classes):
        agents = list(kind.agents)
        for name, rows in (("observation", there), ("action", there), ("cut_observation", left)):
            found[f"{name}/{index}"] = _where(rows[agents], rollout[f"{name}/{index}"])
    return found


def _where(rows: Array, values: Array) -> Array:
    """`values` ``[n, ..., F]`` in the `rows` ``[n, ...]``, and zeros elsewhere."""
    wide = rows.reshape(*rows.shape, *[1] * (values.ndim - rows.ndim))
    return np.where(wide, values, values.dtype.type(0))


def _cuts(played: Sequence[Mapping[str, Array]]) -> Array:
    """The units' (t, e) pairs, e counted over the joined copies."""
    parts, first = [], 0
    for rollout in played:
        parts.append(rollout["cut"] + np.array([0, first]))
        first += rollout["ended"].shape[1]
    return np.concatenate(parts)
