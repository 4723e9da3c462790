"""A trained team as one file, and the three lines that play it:

    from coordinator.reports import load_policy
    policy = load_policy("runs/latest")
    actions = policy.act(observations)

The file (`policies.safetensors` in the run's folder) holds the networks by group and, in its header, who uses which;
nothing but numpy and safetensors is needed to read it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from functions.algorithms.losses import ILLEGAL
from functions.algorithms.networks import forward, layers_of
from functions.contract import CorruptObject, Team
from functions.environments.base import Spec, Task
from functions.keys import group_name

FILE = "policies.safetensors"
_HEADER = "marless-policies"


class TeamFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The header: the task that was trained on, what it looks like, and who shares which network."""

    task: Task
    spec: Spec
    team: Team


class TeamPolicy:
    """The policies of a team, by agent name."""

    def __init__(self, header: TeamFile, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.task, self.agents, self._team = header.task, header.spec.agents, header.team
        self._layers = {
            agent: layers_of(tensors, f"policy/{group_name(group)}")
            for agent, group in zip(header.spec.agents, header.team.groups, strict=True)
        }
        kinds = [header.spec.classes[index] for index in header.spec.class_of]
        self._kinds = dict(zip(header.spec.agents, kinds, strict=True))

    def logits(self, agent: str, observation: ArrayLike) -> NDArray[Any]:
        """Unnormalised log-probabilities ``[..., actions]`` for observations of one agent.

        One observation of the environment's own shape, or a batch of flat ones ``[..., features]``. Raises `ValueError`
        for another size.
        """
        seen, width = np.asarray(observation, np.float32), self._kinds[agent].observation_size
        batch = () if seen.size == width else seen.shape[:-1]
        if seen.size != width * int(np.prod(batch)):
            raise ValueError(f"{agent} observes {width} numbers; the observation has shape {seen.shape}")
        rows = seen.reshape(-1, width)
        if self._team.identity:
            one_hot = np.zeros((len(rows), len(self.agents)), np.float32)
            one_hot[:, self.agents.index(agent)] = 1
            rows = np.concatenate([rows, one_hot], axis=1)
        outputs = forward(self._layers[agent], rows)[-1]
        return outputs.reshape(*batch, -1)

    def act(
        self,
        observations: Mapping[str, Any],
        masks: Mapping[str, ArrayLike] | None = None,
        rng: np.random.Generator | None = None,
    ) -> dict[str, Any]:
        """An action, as the environment numbers them, for every agent in `observations` (as `logits` takes them).

        Greedy, or drawn from the policy when `rng` is given. `masks` hold True where an action is legal; PettingZoo's
        ``{"observation": ..., "action_mask": ...}`` does as well. Raises `KeyError` for an agent not in the team.
        """
        chosen = {}
        for agent, observation in observations.items():
            mask = None if masks is None else masks.get(agent)
            if isinstance(observation, Mapping):
                observation, mask = observation["observation"], observation["action_mask"]
            logits = self.logits(agent, observation)
            if mask is not None:
                logits = np.where(np.asarray(mask, np.bool_), logits, np.float32(ILLEGAL))
            if rng is not None:
                logits = logits + rng.gumbel(size=logits.shape)  # the Gumbel-max trick draws from the softmax
            actions = logits.argmax(axis=-1) + self._kinds[agent].first_action
            chosen[agent] = int(actions) if actions.ndim == 0 else actions
        return chosen


def export(header: TeamFile, tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """The file's bytes; of `tensors` only the policies are kept."""
    policies = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors) if name.startswith("policy/")}
    return bytes(save(policies, metadata={_HEADER: msgspec.json.encode(header).decode()}))


def load_policy(run: str | os.PathLike[str]) -> TeamPolicy:
    """The policies of a run's folder, or of a policy file; raises `FileNotFoundError` or `CorruptObject`."""
    path = Path(run)
    path = path / FILE if path.is_dir() else path
    body = path.read_bytes()
    try:
        length = int.from_bytes(body[:8], "little")
        header = msgspec.json.decode(body[8 : 8 + length])["__metadata__"][_HEADER]
        return TeamPolicy(msgspec.json.decode(header, type=TeamFile), load(body))
    except (msgspec.MsgspecError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CorruptObject(f"{path} is not a policy file: {error}") from error
