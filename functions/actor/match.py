"""Matches of the newest policies of one side against policies of an earlier round or a scripted player. See
`marless.functions.messages.actor.Match`."""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from marless.functions.environments.base import EnvSpec
from marless.functions.keys import group_name
from marless.functions.messages.actor import Match, SampleTask
from marless.functions.messages.team import Opponents
from marless.functions.nn.batched_acting import single_agent_policy
from marless.functions.serving import Tensors


def meet(
    task: SampleTask, match: Match, spec: EnvSpec, newest: Tensors, earlier: Tensors
) -> tuple[SampleTask, Tensors]:
    """Return the task with the team of both rounds, and its policies.

    Each agent of the earlier round is a separate group. Raises `BadRequest` for a factory's policies of another
    `identity`.
    """
    agents = tuple(np.flatnonzero(earlier_agents(match)).tolist())
    groups = tuple(agent if agent in agents else group for agent, group in enumerate(task.team.groups))
    opponents = Opponents(agents=agents, acting="greedy" if match.greedy else "drawn")
    if (script := match.team.opponents) is not None:
        opponents = replace(script, agents=agents)
    team = replace(task.team, groups=groups, opponents=opponents)
    learning = {f"policy/{group_name(group)}/" for group in team.learning}
    weights = {name: array for name, array in newest.items() if name.startswith(tuple(learning))}
    for agent in agents if script is None else ():
        weights |= single_agent_policy(earlier, spec, match.team, agent, task.team.identity)
    return replace(task, team=team), weights


def earlier_agents(match: Match) -> NDArray[np.bool_]:
    """Return the mask ``[N]`` of agents that play by the policies of the earlier round."""
    return ~np.isin(np.arange(len(match.team.groups)), match.agents)


def mean_score(
    match: Match, agent_returns: Sequence[NDArray[np.float64]], weights: Sequence[NDArray[np.float64]] | None = None
) -> float | None:
    """The mean score of the agents that learn over the episodes ``[episodes, N]`` of all rollouts, which weigh alike or
    as `weights` says. None without one."""
    returns, earlier = np.concatenate(agent_returns), earlier_agents(match)
    if not len(returns):
        return None
    lead = returns[:, ~earlier].sum(axis=1) - returns[:, earlier].sum(axis=1)
    return float(np.average((1 + np.sign(lead)) / 2, weights=None if weights is None else np.concatenate(weights)))
