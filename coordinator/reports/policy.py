"""A trained team as one file, and the three lines that play it:

    from coordinator.reports import load_policy
    policy = load_policy("runs/latest")
    actions = policy.act(observations)

The file (`policies.safetensors` in the run's folder) holds the networks by group and, in its header, which agent uses
which; reading it needs only numpy and safetensors.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from coordinator.core.scripts import scripted_team
from coordinator.file_reading import UnreadableFile, read_file
from functions import codec
from functions.contract import CorruptObject, Team
from functions.encoding import from_json, to_json_text
from functions.environments import registry
from functions.environments.base import AgentClass, EnvSpec, EnvTask
from functions.keys import group_name
from functions.nn.batched import ActingNetworks, batch_networks, single_agent_policy
from functions.nn.losses import mask_logits
from functions.policies import Player, Policy
from functions.redaction import redacted

FILE = "policies.safetensors"
_HEADER = "marless-policies"
# What a header of another form, or tensors that do not fit it, raise: whoever wrote the file chose them.
_REFUSALS = (SafetensorError, LookupError, ArithmeticError, TypeError, ValueError, RuntimeError, MemoryError)


class TeamFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The header: the task of the training, its spec, and which agents share a network. `greedy`: the outputs are not
    probabilities to sample from."""

    task: EnvTask
    spec: EnvSpec
    team: Team
    greedy: bool = False


class TeamPolicy:
    """The policies of a team, by agent name.

    Recurrent policies keep a hidden state from `start` on.
    """

    def __init__(self, header: TeamFile, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Raises `ValueError` when the networks do not fit the team."""
        self.task, self.spec, self.agents, self.greedy = header.task, header.spec, header.spec.agents, header.greedy
        self._header, self._tensors = header, tensors
        self._actors = {
            name: _Actor.of(header, tensors, agent) for agent, name in enumerate(self.agents) if self.plays(agent)
        }

    def plays(self, agent: int) -> bool:
        """Whether the agent has a policy; opponents that acted at random or by a script have none."""
        opponents = self._header.team.opponents
        return opponents is None or not opponents.by_chance or agent not in opponents.agents

    @property
    def scripted(self) -> bool:
        """Whether a script acts for all agents, which have no policies."""
        opponents = self._header.team.opponents
        return opponents is not None and opponents.acting == "scripted" and len(opponents.agents) == len(self.agents)

    def apart(self, agents: Iterable[int], identity: bool) -> dict[str, NDArray[Any]]:
        """The networks of some agents, each in a separate group, for a team with or without `identity` inputs; they act
        as here, bit for bit."""
        found: dict[str, NDArray[Any]] = {}
        for agent in agents:
            found |= single_agent_policy(self._tensors, self._header.spec, self._header.team, agent, identity)
        return found

    @property
    def identity(self) -> bool:
        """Whether networks take the agent's one-hot."""
        return self._header.team.identity

    def networks(self, agent: int) -> ActingNetworks:
        """The network of an agent that has a policy, as a class of this agent alone."""
        return self._actors[self.agents[agent]].networks

    def stored(self, agent: int) -> dict[str, NDArray[Any]]:
        """The tensors of an agent's network by their names within the network."""
        prefix = f"policy/{group_name(self._header.team.groups[agent])}/"
        return {name.removeprefix(prefix): array for name, array in self._tensors.items() if name.startswith(prefix)}

    def start(self) -> None:
        """Begins new episodes: resets the hidden states of recurrent policies."""
        for actor in self._actors.values():
            actor.hidden = None

    def player(self, num_envs: int) -> Player:
        """All agents in `num_envs` environments, for `functions.environments.base.VectorEnvironment`."""
        return Player(Policy(self._header.spec, self._header.team, self._tensors), num_envs)

    def act(
        self,
        observations: Mapping[str, Any],
        masks: Mapping[str, ArrayLike] | None = None,
        rng: np.random.Generator | None = None,
    ) -> dict[str, Any]:
        """An action in the environment's format for every agent in `observations`.

        Each value is one observation in the environment's shape, or a batch of flat ones ``[..., features]``. Actions
        are greedy, or sampled when `rng` is given. A discrete action is an int, a multi-discrete one an array
        ``[branches]``, a continuous one an array ``[d]`` within the bounds. `masks` hold True where an action is legal;
        PettingZoo's ``{"observation": ..., "action_mask": ...}`` works too. Raises `KeyError` for an agent that has no
        policy here, `ValueError` for an observation of another size.
        """
        chosen = {}
        for agent, observation in observations.items():
            mask = None if masks is None else masks.get(agent)
            if isinstance(observation, Mapping):
                observation, mask = observation["observation"], observation["action_mask"]
            chosen[agent] = self._actors[agent].act(observation, mask, rng)
        return chosen


class _Actor:
    """One agent: its network, its action head and its hidden state."""

    def __init__(self, name: str, kind: AgentClass, networks: ActingNetworks) -> None:
        self._name, self._kind, self.networks = name, kind, networks
        self._head = networks.head(kind)
        self.hidden: NDArray[Any] | None = None

    @classmethod
    def of(cls, header: TeamFile, tensors: Mapping[str, NDArray[Any]], agent: int) -> "_Actor":
        spec = header.spec
        kind = msgspec.structs.replace(spec.classes[spec.class_of[agent]], agents=(agent,))
        alone = msgspec.structs.replace(spec, classes=(kind,))
        return cls(spec.agents[agent], kind, batch_networks(alone, header.team, tensors, 0))

    def act(self, observation: ArrayLike, mask: ArrayLike | None, rng: np.random.Generator | None) -> Any:
        """See `TeamPolicy.act`."""
        seen, width = np.asarray(observation, np.float32), self._kind.observation_size
        batch = () if seen.size == width else seen.shape[:-1]
        if seen.size != width * int(np.prod(batch)):
            raise ValueError(f"{self._name} observes {width} numbers; the observation has shape {seen.shape}")
        outputs = self._outputs(seen.reshape(-1, width))
        if mask is not None and not self._kind.continuous:
            legal = np.broadcast_to(np.asarray(mask, np.bool_), (*batch, outputs.shape[-1])).reshape(outputs.shape)
            outputs = mask_logits(outputs, legal)
        if rng is None:
            actions = self._head.greedy(outputs)
        else:
            noise = self._head.noise(outputs.shape[:2], rng)
            actions, _ = self._head.draw(outputs, self.networks.log_std, noise)
        played = self._head.to_environment(actions)
        played = played.reshape((*batch, *played.shape[2:]))
        if not self._kind.continuous:
            played = played + self._kind.first_action
        return int(played) if played.ndim == 0 else played

    def _outputs(self, rows: NDArray[np.float32]) -> NDArray[Any]:
        """``[1, rows, width]``; raises `ValueError` when the batch size differs from that at `start`."""
        before = self.networks.start(len(rows)) if self.hidden is None else self.hidden
        if before is not None and before.shape[-2] != len(rows):
            raise ValueError(
                f"{self._name} began with {before.shape[-2]} environments and got {len(rows)}; call start()"
            )
        outputs, self.hidden = self.networks.outputs(
            rows[None, None], None if before is None else before.reshape(1, 1, len(rows), -1)
        )
        return np.asarray(outputs[0])


def without_secrets(task: EnvTask) -> EnvTask:
    """The task as files have it that may be given away: options that are secrets by their name have none of it."""
    return msgspec.structs.replace(task, options=redacted(task.options))


def same_task(one: EnvTask, other: EnvTask) -> bool:
    """Whether policies of one task play the other; a key or a password is no part of a task."""
    return without_secrets(one) == without_secrets(other)


def export(header: TeamFile, tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """The file's bytes, with the policies among `tensors`."""
    header = msgspec.structs.replace(header, task=without_secrets(header.task))
    policies = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors) if name.startswith("policy/")}
    return bytes(save(policies, metadata={_HEADER: to_json_text(header)}))


def scripted_policy(task: EnvTask, script: str) -> TeamPolicy:
    """Agents that all act by a script; see `functions.environments.scripted.registry.reference`."""
    spec = registry.spec(task)
    return TeamPolicy(TeamFile(task=task, spec=spec, team=scripted_team(len(spec.agents), script)), {})


def load_policy(run: str | os.PathLike[str]) -> TeamPolicy:
    """The policies of a run's folder, or of a policy file; raises `FileNotFoundError` or `CorruptObject`."""
    path = Path(run)
    path = path / FILE if path.is_dir() else path
    try:
        body = read_file(path)
        header = from_json(codec.metadata(body)[_HEADER], TeamFile)
        return TeamPolicy(header, load(body))
    except FileNotFoundError:
        raise
    except UnreadableFile as error:
        raise CorruptObject(str(error)) from error
    except _REFUSALS as error:
        raise CorruptObject(f"{path} is not a policy file: {error}") from error
