"""Episodes of rounds whose trajectories a run still stores: those that its replay buffer holds."""

from collections.abc import Iterator, Mapping

import numpy as np

from coordinator.errors import UserError
from functions import codec
from functions.contract import Past
from functions.data.trajectory import Array, tensors_below
from functions.environments.base import EnvSpec
from functions.keys import round_name
from functions.nn.heads import head_of
from marless.exports.episode_recording import Arrays, Episode
from marless.reports.policy import TeamPolicy
from marless.runs.stored_run import Stored


def stored_episodes(run: Stored, team: TeamPolicy, first: int, last: int) -> list[Episode]:
    """The episodes of rounds `first` to `last`, counted from 1; a piece where a rollout begins or ends within one.

    Raises `UserError` unless all of the rounds are stored.
    """
    episodes: list[Episode] = []
    for past in _past_rounds(run, first, last):
        tensors = codec.fetch_tensors(run.storage, past.trajectories)
        tensors = tensors_below(tensors, f"{round_name(past.round)}/") or tensors
        for name in sorted({name.split("/")[0] for name in tensors}):
            episodes += _pieces(team, tensors_below(tensors, f"{name}/"))
    return episodes


def _past_rounds(stored_run: Stored, first: int, last: int) -> list[Past]:
    run = stored_run.plan.run
    # Objects count rounds from 0, what users read (metrics.jsonl) from 1.
    there = {past.round + 1: past for past in stored_run.saved_state.past if past.trajectories}
    if not there:
        raise UserError(
            f"{run} stores no rounds: only a replay buffer keeps them, which {stored_run.plan.config.algorithm.name}"
            " does not have or has not filled; --episodes N plays new episodes"
        )
    if first not in there or last not in there:
        raise UserError(
            f"{run} stores rounds {min(there)} to {max(there)}, not {first} to {last}: others are not played yet or"
            " have left the replay buffer (algorithm.buffer_size); --episodes N plays new episodes"
        )
    return [past for round_, past in sorted(there.items()) if first <= round_ <= last]


def _pieces(team: TeamPolicy, rollout: Mapping[str, Array]) -> Iterator[Episode]:
    """The episodes of each environment of a rollout in order.

    What was seen after an episode is stored for those that were cut; it is zeros after others.
    """
    steps, done = _steps(team, rollout), rollout["ended"]
    cuts = {(int(t), int(e)): place for place, (t, e) in enumerate(rollout["cut"])}
    after = _observation_arrays(team.spec, tensors_below(rollout, "cut_"))
    for e in range(done.shape[1]):
        ends = sorted({*np.flatnonzero(done[:, e]).tolist(), len(done) - 1})
        for start, end in zip([0, *(t + 1 for t in ends)], ends, strict=False):
            episode, place = (
                {name: array[start : end + 1, e].copy() for name, array in steps.items()},
                cuts.get((end, e)),
            )
            for agent in team.agents:
                cut_by_limit = episode[f"{agent}/alive"][-1] and not episode[f"{agent}/terminations"][-1]
                episode[f"{agent}/truncations"][-1] = cut_by_limit and place is not None
            none = {name: np.zeros(array.shape[1:], array.dtype) for name, array in after.items()}
            yield Episode(
                episode, none if place is None else {name: array[place].copy() for name, array in after.items()}
            )


def _steps(team: TeamPolicy, rollout: Mapping[str, Array]) -> Arrays:
    """All steps by the names of `Episode.steps` ``[T, E, ...]``."""
    spec, arrays = team.spec, _observation_arrays(team.spec, rollout)
    for agent, name in enumerate(spec.agents):
        index = spec.class_of[agent]
        kind = spec.classes[index]
        actions = rollout[f"action/{index}"][kind.agents.index(agent)]
        # Agents without a policy drew from [-1, 1].
        head = team.networks(agent).head(kind) if team.plays(agent) else head_of(kind, stochastic=False)
        env_actions = head.to_environment(actions)
        env_actions = env_actions if kind.continuous else env_actions.astype(np.int64)
        arrays |= {
            f"{name}/actions": team.codec(agent).action.decode(env_actions),
            f"{name}/rewards": rollout["reward"][agent],
            f"{name}/terminations": rollout["terminated"][agent],
            f"{name}/truncations": np.zeros_like(rollout["terminated"][agent]),
            f"{name}/alive": rollout["alive"][agent],
        }
    return arrays


def _observation_arrays(spec: EnvSpec, rollout: Mapping[str, Array]) -> Arrays:
    """Observations and masks by agent, and the state, without the axis of agents."""
    arrays: Arrays = {}
    for index, kind in enumerate(spec.classes):
        for place, agent in enumerate(kind.agents):
            arrays[f"{spec.agents[agent]}/observations"] = rollout[f"observation/{index}"][place]
            if spec.masked and not kind.continuous:
                arrays[f"{spec.agents[agent]}/masks"] = rollout[f"mask/{index}"][place]
    return {**arrays, "state": rollout["state"]} if spec.state_size else arrays
