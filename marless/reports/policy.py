"""A trained team as one file, and the three lines that play it:

    policy = marless.load_policy("latest")
    actions = policy.act(observations)

The file (`policies.safetensors` in the run's folder) holds the networks by group. Its header says which agent uses
which network. Reading it needs only numpy and safetensors.
"""

import os
import textwrap
import warnings
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile, ZipInfo

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from marless.coordinator.core.opponents import scripted_team
from marless.coordinator.errors import UserError, one_line
from marless.coordinator.file_reading import UnreadableFile, read_file
from marless.functions import codec
from marless.functions.data.trajectory import tensors_below
from marless.functions.encoding import from_json, to_json_text
from marless.functions.environments import native_spaces, registry
from marless.functions.environments.base import AgentClass, EnvironmentFault, EnvSpec, EnvTask, Unsupported
from marless.functions.environments.entities.ordered import INDEX, order_of
from marless.functions.environments.language_task_names import is_language_task
from marless.functions.environments.last_action import numbers_of
from marless.functions.environments.spaces.agent import AgentCodec, Seen
from marless.functions.environments.spaces.observations import SpaceError
from marless.functions.environments.spaces.orders import EntityOrder
from marless.functions.environments.spaces.space_types import AgentSpaces
from marless.functions.environments.spaces.team import TeamCodec
from marless.functions.environments.task_names import EXACT_PHYSICS, is_adapted
from marless.functions.errors import BadRequest, CorruptObject
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.batched_acting import ActingNetworks, batch_networks, single_agent_policy
from marless.functions.nn.losses import mask_logits
from marless.functions.policies import Player, Policy
from marless.functions.text.redaction import redact_settings
from marless.reports.atomic_files import replace
from marless.reports.regrouped_team import regrouped

FILE = "policies.safetensors"
_HEADER = "marless-policies"
# The errors of a header of another form, or of tensors that do not fit it. The file may come from anyone.
_MISFITS = (LookupError, ArithmeticError, TypeError, ValueError, RuntimeError, MemoryError)
_REFUSALS = (BadZipFile, SafetensorError, *_MISFITS)


class TeamFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The header: the task of the training, its spec, and which agents share a network. `greedy`: the outputs are not
    probabilities to sample from."""

    task: EnvTask
    spec: EnvSpec
    team: Team
    greedy: bool = False


class TeamPolicy:
    """The policies of a team, by agent name.

    From `start` on, recurrent policies keep a hidden state, and with the task's `last_action` their last actions.
    """

    def __init__(self, header: TeamFile, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Raises `ValueError` when the networks do not fit the team."""
        self.task, self.spec, self.agents, self.greedy = header.task, header.spec, header.spec.agents, header.greedy
        self._header, self._tensors, self._warned = header, tensors, False
        self._actors = {
            name: _Actor.of(header, tensors, agent) for agent, name in enumerate(self.agents) if self.plays(agent)
        }
        codecs = {name: actor.codec for name, actor in self._actors.items()}
        carrying = {name for name, actor in self._actors.items() if self.task.last_action or actor.networks.recurrent}
        self._team = TeamCodec(codecs, self.agents, self.spec.turns, carrying)

    def __repr__(self) -> str:
        agents = textwrap.shorten(", ".join(self.agents), 500, placeholder=" ...")
        return f"<TeamPolicy of {agents} on {self.task.name}{', greedy' if self.greedy else ''}>"

    def plays(self, agent: int) -> bool:
        """Return whether the agent has a policy. Opponents that acted at random or by a script have none."""
        opponents = self._header.team.opponents
        return opponents is None or not opponents.by_chance or agent not in opponents.agents

    @property
    def scripted(self) -> bool:
        """True if a script acts for all agents. They have no policies."""
        opponents = self._header.team.opponents
        return opponents is not None and opponents.acting == "scripted" and len(opponents.agents) == len(self.agents)

    def apart(self, agents: Iterable[int], identity: bool) -> dict[str, NDArray[Any]]:
        """Return the networks of some agents, each in a separate group, for a team with or without `identity` inputs.
        They act like here, bit for bit."""
        policies: dict[str, NDArray[Any]] = {}
        for agent in agents:
            policies |= single_agent_policy(self._tensors, self._header.spec, self._header.team, agent, identity)
        return policies

    @property
    def identity(self) -> bool:
        """True if networks take the agent's one-hot as input."""
        return self._header.team.identity

    def networks(self, agent: int) -> ActingNetworks:
        """The network of an agent that has a policy, as a class of this agent alone."""
        return self._actors[self.agents[agent]].networks

    def stored(self, agent: int) -> dict[str, NDArray[Any]]:
        """The tensors of an agent's network by their names within the network."""
        return tensors_below(self._tensors, f"policy/{group_name(self._header.team.groups[agent])}/")

    def order(self, agent: int) -> EntityOrder | None:
        """The order of entities in an agent's observations, if the policy sorts them."""
        return order_of(self.task.order, self.spec.classes[self.spec.class_of[agent]])

    def spaces(self, agent: int) -> AgentSpaces:
        """The environment's own spaces of an agent."""
        kind = self.spec.classes[self.spec.class_of[agent]]
        return native_spaces.spaces_of(kind, self.task.last_action, self.spec.masked)

    def codec(self, agent: int) -> AgentCodec:
        """Encodes observations and decodes actions of an agent."""
        return AgentCodec(self.agents[agent], self.spaces(agent).plain())

    def of_size(self, agents: int) -> "TeamPolicy":
        """The same policies for a team of another size. New agents of a class reuse its networks in turn.

        Raises `UserError` for tasks and policies of a fixed number of agents.

        Examples:
            >>> policy.of_size(5).play(marless.environments.as_pettingzoo("mpe/simple_spread", agents=5))[0]
            -62.4
        """
        task, team = msgspec.structs.replace(self.task, agents=agents), self._header.team
        try:
            spec = registry.spec(task)
            team = regrouped(team, self.spec, spec, task, "this file")
            return TeamPolicy(TeamFile(task=task, spec=spec, team=team, greedy=self.greedy), self._tensors)
        except (BadRequest, EnvironmentFault, Unsupported) as error:
            raise UserError(str(error)) from error

    def start(self) -> None:
        """Begin new episodes, without hidden states and last actions of earlier episodes."""
        self._team.start()
        for actor in self._actors.values():
            actor.hidden = actor.last_action = None

    def player(self, num_envs: int) -> Player:
        """All agents in `num_envs` environments, for `marless.functions.environments.base.VectorEnvironment`."""
        return Player(Policy(self._header.spec, self._header.team, self._tensors), num_envs)

    def act(
        self,
        observations: Mapping[Any, Any],
        masks: Mapping[Any, Any] | None = None,
        rng: np.random.Generator | None = None,
        turn: Any = None,
    ) -> dict[Any, Any]:
        """An action in the environment's own form for every agent in `observations`.

        Each value is one observation of the environment (an array, a number, a dictionary or a tuple), or a batch with
        more axes in front of every array. If a task shows vectors, any array with so many numbers works. Agents are
        known by the text of their names, and the result has the given names. Actions are greedy, or sampled with `rng`:
        an int for one discrete action, else an array of the space's shape and type. `masks` hold True for legal
        actions, choice after choice. PettingZoo's ``{"observation": ..., "action_mask": ...}`` works too. Hidden states
        and last actions (`task.last_action`) are kept from call to call until `start`. If policies have these and
        agents take turns, every call takes the observations of all agents in play, and `turn` names the agent that
        acts. Ignore the actions of the others. After a `UserError` no agent has acted.
        """
        self._warn_of_old_file()
        try:
            encodings = self._team.encode(observations, masks, turn)
        except SpaceError as error:
            raise UserError(one_line(error)) from None
        return {encoding.key: self._actors[name].act(encoding, rng) for name, encoding in encodings.items()}

    def play(self, environment: Any, episodes: int = 1, seed: int = 0) -> list[float]:
        """Play greedy episodes in a `ParallelEnv` of PettingZoo, and return the sum of all agents' rewards of each.
        Episode k is reset with the seed ``seed + k``.

        Examples:
            >>> policy.play(marless.environments.as_pettingzoo("mpe/simple_spread"), episodes=10)[0]
            -31.2
        """
        if isinstance(environment, type) or not hasattr(environment, "reset"):
            raise UserError("play an environment, such as marless.environments.as_pettingzoo('mpe/simple_spread')")
        returns = []
        for episode in range(episodes):
            self.start()
            observations, _ = environment.reset(seed=seed + episode)
            returns.append(0.0)
            while environment.agents:
                observations, rewards, *_ = environment.step(self.act(observations))
                returns[-1] += float(sum(rewards.values()))
        return returns

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the policies as one file for `marless.load_policy`, and return its path. A ``.zip`` holds that file.

        Examples:
            >>> policy.save("team.zip")
            PosixPath('team.zip')
        """
        target, body = Path(path), export(self._header, self._tensors)
        if target.suffix == ".zip":
            archive = BytesIO()
            with ZipFile(archive, "w") as file:
                file.writestr(ZipInfo(FILE), body)
            body = archive.getvalue()
        replace(target, body)
        return target

    def _warn_of_old_file(self) -> None:
        """Warns once when the task's own spaces, which older files do not hold, may be others than vectors."""
        if self._warned or not is_adapted(self.task.name):
            return
        self._warned = True
        if any(kind.spaces is None for kind in self.spec.classes):
            warnings.warn(
                "these policies were written before files held the spaces of the environment: act takes observations as"
                " networks see them (flat numbers, images as 0 to 1, choices as one-hots), and several choices count"
                " from 0, and, where agents take turns and policies are recurrent, observations of all agents at every"
                " turn; train again to give the environment's own",
                stacklevel=3,
            )


class _Actor:
    def __init__(self, codec: AgentCodec, kind: AgentClass, networks: ActingNetworks, task: EnvTask) -> None:
        self.codec, self._kind, self.networks = codec, kind, networks
        self._head, self._follows, self._order = networks.head(kind), task.last_action, order_of(task.order, kind)
        # ``[..., rows, H]`` and ``[rows, actions]``, or None at the start of episodes.
        self.hidden: NDArray[Any] | None = None
        self.last_action: NDArray[Any] | None = None

    @classmethod
    def of(cls, header: TeamFile, tensors: Mapping[str, NDArray[Any]], agent: int) -> "_Actor":
        spec, task = header.spec, header.task
        kind = msgspec.structs.replace(spec.classes[spec.class_of[agent]], agents=(agent,))
        alone = msgspec.structs.replace(spec, classes=(kind,))
        # In numpy, so that a policy file needs no compiler. `player` acts like the run.
        networks = batch_networks(alone, msgspec.structs.replace(header.team, kernels=False), tensors, 0)
        codec = native_spaces.codec_of(kind, spec.agents[agent], task.last_action, spec.masked)
        return cls(codec, kind, networks, task)

    def act(self, encoding: Seen, rng: np.random.Generator | None) -> Any:
        """See `TeamPolicy.act`."""
        outputs = self._outputs(encoding.rows)
        if encoding.legal is not None:
            outputs = mask_logits(outputs, encoding.legal[None])
        if rng is None:
            actions = self._head.greedy(outputs)
        else:
            actions, _ = self._head.draw(outputs, self.networks.log_std, self._head.noise(outputs.shape[:2], rng))
        env_actions = self._head.to_environment(actions)[0]
        if self._follows:
            self.last_action = numbers_of(self._kind, env_actions)
        return self.codec.decode(env_actions, encoding.batch)

    def _outputs(self, rows: NDArray[np.float32]) -> NDArray[Any]:
        if self._order is not None:
            rows = self._order.sort(rows)
        if self._follows:
            last = np.zeros((len(rows), self._kind.actions)) if self.last_action is None else self.last_action
            rows = np.concatenate([rows, last], axis=-1, dtype=np.float32)
        before = self.networks.start(len(rows)) if self.hidden is None else self.hidden
        outputs, self.hidden = self.networks.outputs(
            rows[None, None], None if before is None else before.reshape(1, 1, len(rows), -1)
        )
        return np.asarray(outputs[0])


def without_secrets(task: EnvTask) -> EnvTask:
    """The task as files have it that may be given away: options that are secrets by their name have none of it."""
    return msgspec.structs.replace(task, options=redact_settings(task.options))


def same_task(one: EnvTask, other: EnvTask) -> bool:
    """Return whether policies of one task play the other. Keys, passwords and last bits do not matter."""
    return _game(one) == _game(other)


def _game(task: EnvTask) -> EnvTask:
    task = without_secrets(task)
    options = {name: value for name, value in task.options.items() if name != EXACT_PHYSICS}
    return msgspec.structs.replace(task, options=options)


def export(header: TeamFile, tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """The file's bytes, with the policies among `tensors`."""
    header = msgspec.structs.replace(header, task=without_secrets(header.task))
    policies = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors) if name.startswith("policy/")}
    return bytes(save(policies, metadata={_HEADER: to_json_text(_document(header))}))


def _document(header: TeamFile) -> dict[str, Any]:
    """Return the header without unused fields that are newer than the file's program, so that old files stay equal."""
    document: dict[str, Any] = msgspec.to_builtins(header)
    if header.task.order == INDEX:
        del document["task"]["order"]
    for kind in document["spec"]["classes"]:
        if kind["entities"] is None:
            del kind["entities"]
    return document


def scripted_policy(task: EnvTask, script: str) -> TeamPolicy:
    """Return agents that all act by a script, see `marless.functions.environments.scripted.script_names.reference`."""
    spec = registry.spec(task)
    return TeamPolicy(TeamFile(task=task, spec=spec, team=scripted_team(len(spec.agents), script)), {})


def load_policy(path: str | os.PathLike[str]) -> TeamPolicy:
    """Return the policies of a run's folder or of a policy file. Raises `FileNotFoundError` or `CorruptObject`."""
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    header, body = _read(file)
    if is_language_task(header.task.name):
        raise CorruptObject(f"{file} holds adapters of agents that speak: marless evaluate, replay, export --to peft")
    try:
        native_spaces.require_fitting(header.spec, header.task.last_action)
        return TeamPolicy(header, load(body))
    except _REFUSALS as error:
        raise CorruptObject(f"{file} is not a policy file: {error}") from error


def agents_of(file: Path) -> tuple[str, ...]:
    """Return the names of the agents in a policy file. Raises the errors of `load_policy`."""
    return _read(file)[0].spec.agents


def _read(file: Path) -> tuple[TeamFile, bytes]:
    try:
        body = read_file(file)
        if file.suffix == ".zip":
            body = ZipFile(BytesIO(body)).read(FILE)
        return from_json(codec.metadata(body)[_HEADER], TeamFile), body
    except FileNotFoundError:
        raise
    except UnreadableFile as error:
        raise CorruptObject(str(error)) from error
    except _REFUSALS as error:
        raise CorruptObject(f"{file} is not a policy file: {error}") from error
