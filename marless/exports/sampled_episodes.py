"""The episodes of sampled rounds, as arrays of the environment's units, and where every one of them is from."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from marless.exports.episode_recording import Arrays, Episode
from marless.exports.stored_rounds import SampledRound
from marless.functions.data.trajectory import EARLIER, Array, tensors_below
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.exchange import Origin
from marless.functions.nn.heads import head_of
from marless.reports.policy import TeamPolicy

# The version of agents that act without policies of the run's own round: an earlier round's, a script, chance, or a
# dataset's records.
NO_VERSION = -1


@dataclass(frozen=True)
class SampledEpisode(Episode):
    """An episode of a round of training, or a piece of one where a rollout begins or ends within it."""

    origin: Origin
    rollout: int
    """Its number in the round, from 0."""
    environment: int
    """Its number in the rollout, from 0."""
    versions: dict[str, tuple[int, str]]
    """By agent, how many rounds were finished when its policies were made, or `NO_VERSION`, and the hash of its
    policies, or ''."""


def sampled_episodes(team: TeamPolicy, rounds: Iterable[SampledRound]) -> list[SampledEpisode]:
    """The episodes by round, rollout, environment and time. `team` knows the agents' spaces."""
    return [
        episode
        for sampled_round in rounds
        for name, rollout in sampled_round.rollouts.items()
        for episode in _pieces(team, sampled_round.origins[name], int(name[1:]), rollout)
    ]


def _pieces(team: TeamPolicy, origin: Origin, number: int, rollout: Mapping[str, Array]) -> Iterator[SampledEpisode]:
    """The episodes of each environment of a rollout in order.

    The observation after an episode is stored for cut episodes. After others it is zeros.
    """
    steps, done = _steps(team, rollout), rollout["ended"]
    versions = _versions(team, origin, rollout)
    cuts = {(int(t), int(e)): place for place, (t, e) in enumerate(rollout["cut"])}
    after = _observation_arrays(team.spec, tensors_below(rollout, "cut_"))
    none = {name: np.zeros(array.shape[1:], array.dtype) for name, array in after.items()}
    for e in range(done.shape[1]):
        ends = sorted({*np.flatnonzero(done[:, e]).tolist(), len(done) - 1})
        for start, end in zip([0, *(t + 1 for t in ends)], ends, strict=False):
            episode = {name: array[start : end + 1, e].copy() for name, array in steps.items()}
            place = cuts.get((end, e))
            for agent in team.agents:
                cut_by_limit = episode[f"{agent}/alive"][-1] and not episode[f"{agent}/terminations"][-1]
                episode[f"{agent}/truncations"][-1] = cut_by_limit and place is not None
            final = none if place is None else {name: array[place].copy() for name, array in after.items()}
            yield SampledEpisode(episode, final, origin, number, e, versions)


def _versions(team: TeamPolicy, origin: Origin, rollout: Mapping[str, Array]) -> dict[str, tuple[int, str]]:
    earlier = rollout.get(EARLIER, np.zeros(len(team.agents), np.bool_))
    versions = {}
    for agent, name in enumerate(team.agents):
        if earlier[agent]:
            versions[name] = NO_VERSION, origin.opponents
        elif not origin.policies or not team.plays(agent):
            versions[name] = NO_VERSION, ""
        else:
            versions[name] = origin.round, origin.policies
    return versions


def _steps(team: TeamPolicy, rollout: Mapping[str, Array]) -> Arrays:
    spec, arrays = team.spec, _observation_arrays(team.spec, rollout)
    for agent, name in enumerate(spec.agents):
        index = spec.class_of[agent]
        kind = spec.classes[index]
        place = kind.agents.index(agent)
        # Agents without a policy drew from [-1, 1].
        head = team.networks(agent).head(kind) if team.plays(agent) else head_of(kind, stochastic=False)
        env_actions = head.to_environment(rollout[f"action/{index}"][place])
        env_actions = env_actions if kind.continuous else env_actions.astype(np.int64)
        arrays |= {
            f"{name}/actions": team.codec(agent).action.decode(env_actions),
            f"{name}/rewards": rollout["reward"][agent],
            f"{name}/terminations": rollout["terminated"][agent],
            f"{name}/truncations": np.zeros_like(rollout["terminated"][agent]),
            f"{name}/alive": rollout["alive"][agent],
        }
        if f"log_probability/{index}" in rollout:
            arrays[f"{name}/log_probabilities"] = rollout[f"log_probability/{index}"][place]
    return arrays


def _observation_arrays(spec: EnvSpec, rollout: Mapping[str, Array]) -> Arrays:
    arrays: Arrays = {}
    for index, kind in enumerate(spec.classes):
        for place, agent in enumerate(kind.agents):
            arrays[f"{spec.agents[agent]}/observations"] = rollout[f"observation/{index}"][place]
            if spec.masked and not kind.continuous:
                arrays[f"{spec.agents[agent]}/masks"] = rollout[f"mask/{index}"][place]
    return {**arrays, "state": rollout["state"]} if spec.state_size else arrays
