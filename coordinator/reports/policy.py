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
from functions.environments.base import Task
from functions.keys import group_name

FILE = "policies.safetensors"
_HEADER = "marless-policies"


class TeamFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The header: the task that was trained on, agents in order, and who shares which network."""

    task: Task
    agents: tuple[str, ...]
    team: Team


class TeamPolicy:
    """The policies of a team, by agent name."""

    def __init__(self, header: TeamFile, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.task, self.agents, self._team = header.task, header.agents, header.team
        self._layers = {
            agent: layers_of(tensors, f"policy/{group_name(group)}")
            for agent, group in zip(header.agents, header.team.groups, strict=True)
        }

    def logits(self, agent: str, observation: ArrayLike) -> NDArray[Any]:
        """Unnormalised log-probabilities ``[..., actions]`` for observations ``[..., features]`` of one agent."""
        flat = np.asarray(observation, np.float32)
        rows = flat.reshape(-1, flat.shape[-1])
        if self._team.identity:
            one_hot = np.zeros((len(rows), len(self.agents)), np.float32)
            one_hot[:, self.agents.index(agent)] = 1
            rows = np.concatenate([rows, one_hot], axis=1)
        outputs = forward(self._layers[agent], rows)[-1]
        return outputs.reshape(*flat.shape[:-1], -1)

    def act(
        self,
        observations: Mapping[str, ArrayLike],
        masks: Mapping[str, ArrayLike] | None = None,
        rng: np.random.Generator | None = None,
    ) -> dict[str, Any]:
        """An action for every agent in `observations` (one observation each, or a batch ``[..., features]``).

        Greedy, or drawn from the policy when `rng` is given. `masks` hold True where an action is legal. Raises
        `KeyError` for an agent the team does not have.
        """
        chosen = {}
        for agent, observation in observations.items():
            logits = self.logits(agent, observation)
            if masks is not None and agent in masks:
                logits = np.where(np.asarray(masks[agent], np.bool_), logits, np.float32(ILLEGAL))
            if rng is not None:
                logits = logits + rng.gumbel(size=logits.shape)  # the Gumbel-max trick draws from the softmax
            actions = logits.argmax(axis=-1)
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
