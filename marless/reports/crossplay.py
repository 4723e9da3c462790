"""One side of a team against others: its policies, greedy, while the other agents act at random or as another team.

Where agents compete, a sum over agents hides which side improved: one side wins the other's loss. Here each side is
measured alone, against opponents that stay the same from run to run. The sides come from `EnvSpec.sides`, such as
``adversary`` and ``agent`` of mpe/simple_adversary. If a task names none, each class of agents counts as one.

    from marless.reports import load_policy
    from marless.reports.crossplay import scores
    scores(load_policy("runs/first"), load_policy("runs/reference"), episodes=3200, seed=1)
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from marless.coordinator.core.sides import Side, sides_of
from marless.functions.environments import registry
from marless.functions.environments.base import ActionArray, EnvSpec, EnvTask, Observation, VectorEnvironment
from marless.functions.episode_returns import Episodes
from marless.functions.nn.heads import distribution
from marless.functions.nn.losses import ILLEGAL
from marless.functions.policies import draws
from marless.functions.randomness import generator
from marless.reports.policy import TeamPolicy, same_task

FloatArray = NDArray[np.float64]
Noise = tuple[NDArray[np.float32], ...]

# The number of environments stepped together. Another number plays other episodes.
_NUM_ENVS = 160


def scores(team: TeamPolicy, reference: TeamPolicy | None, episodes: int, seed: int) -> dict[str, float]:
    """Mean return per agent of every side of `team`, as ``<side> against random`` and ``<side> against reference``.

    Equal `seed`s give equal start states and random actions. A side that acted at random in training is left out.
    Raises `ValueError` as `agent_returns` and `sides` do.
    """
    opponents = {"random": None} if reference is None else {"random": None, "reference": reference}
    return {
        f"{side} against {name}": float((returns / len(members(team.task, side))).mean())
        for side, name, returns in play_sides(team, opponents, episodes, seed)
    }


def play_sides(
    team: TeamPolicy,
    opponents: Mapping[str, TeamPolicy | None],
    episodes: int,
    seed: int,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[tuple[str, str, FloatArray]]:
    """The `totals` of every side that did not act at random in training against every opponent, with their names.
    `progress` is told which match begins."""
    matches = [
        (side, name)
        for side in sides(team.task)
        if all(team.plays(agent) for agent in members(team.task, side))
        for name in opponents
    ]
    for number, (side, name) in enumerate(matches, 1):
        progress(f"{number} of {len(matches)} matches of {episodes:,} episodes: {side} against {name}")
        yield side, name, totals(team.task, team, side, opponents[name], episodes, seed)


def sides(task: EnvTask) -> tuple[str, ...]:
    """Return the sides of a task. Raises `ValueError` if there is only one."""
    sides_of_task = _sides(registry.spec(task))
    if len(sides_of_task) < 2:
        raise ValueError(f"{task.name} has agents of one kind only, so there are no opponents to play against")
    return tuple(side.name for side in sides_of_task)


def members(task: EnvTask, side: str) -> tuple[int, ...]:
    """Return the agents of a side, ascending. Raises `ValueError` for an unknown side."""
    return _side(registry.spec(task), side).agents


def totals(
    task: EnvTask, team: TeamPolicy | None, side: str, opponent: TeamPolicy | None, episodes: int, seed: int
) -> FloatArray:
    """Return the undiscounted return of every episode, summed over the agents of `side`. See `agent_returns`."""
    return np.asarray(agent_returns(task, team, side, opponent, episodes, seed)[:, members(task, side)].sum(axis=1))


def agent_returns(
    task: EnvTask,
    own_team: TeamPolicy | None,
    side: str,
    opponent: TeamPolicy | None,
    episodes: int,
    seed: int,
    stochastic: bool = False,
) -> FloatArray:
    """Undiscounted return of every episode and agent ``[episodes, N]``, in the order of the start states.

    The agents of `side` act greedily by `own_team`, all others greedily by `opponent`. A scripted team draws among its
    choices. Agents without a team draw uniformly from the legal actions. Raises `ValueError` for an unknown side, for a
    team that lacks a policy of its agents, and for a team of another task.

    With `stochastic`, policies draw from their distributions where they have any: a game without chance would else be
    the same each time.
    """
    for team in (own_team, opponent):
        if team is not None and not same_task(team.task, task):
            raise ValueError(f"a team of {team.task.name} cannot play {task.name} with other agents or options")
    agents = members(task, side)
    _require(own_team, agents)
    if opponent is not None:
        _require(opponent, tuple(agent for agent in range(len(opponent.agents)) if agent not in agents))
    returns = []
    for start in range(0, episodes, _NUM_ENVS):
        environment = registry.make(task, _NUM_ENVS)
        try:
            match = _Match(environment, own_team, side, opponent, generator(seed, "crossplay", start, "actions"))
            match.draw_chance(generator(seed, "crossplay", start, "scripts"))
            if stochastic:
                match.draw_actions(generator(seed, "crossplay", start, "policies"))
            rng = generator(seed, "crossplay", start, "environment")
            returns.append(match.play(rng, min(_NUM_ENVS, episodes - start)))
        finally:
            environment.close()
    return np.concatenate(returns)


def _sides(spec: EnvSpec) -> tuple[Side, ...]:
    return sides_of(spec) or tuple(Side(number, kind.name, kind.agents) for number, kind in enumerate(spec.classes))


def _side(spec: EnvSpec, name: str) -> Side:
    by_name = {side.name: side for side in _sides(spec)}
    if name not in by_name:
        raise ValueError(f"there is no side {name}; there are {', '.join(by_name)}")
    return by_name[name]


def _require(team: TeamPolicy | None, agents: tuple[int, ...]) -> None:
    if team is None or team.scripted:
        return
    if without := [team.agents[agent] for agent in agents if not team.plays(agent)]:
        raise ValueError(f"{', '.join(without)} has no policy: it acted at random or by a script in training")


class _Match:
    def __init__(
        self,
        environment: VectorEnvironment,
        own_team: TeamPolicy | None,
        side: str,
        opponent: TeamPolicy | None,
        rng: np.random.Generator,
    ) -> None:
        self._environment, self._rng = environment, rng
        self._agents = list(_side(environment.spec, side).agents)
        # The players of both teams, and which agents of each class are on the side.
        self._players = [None if team is None else team.player(environment.num_envs) for team in (own_team, opponent)]
        self._members = [np.isin(kind.agents, self._agents) for kind in environment.spec.classes]
        self._noise: list[Noise | None] = [None, None]
        self._chance: list[Noise | None] = [None, None]
        self._drawn = [team is not None and not team.greedy for team in (own_team, opponent)]
        self._scripted = [team is not None and team.scripted for team in (own_team, opponent)]
        self._step = 0

    def draw_actions(self, rng: np.random.Generator) -> None:
        """Let the policies draw their actions. Each agent has separate draws, whoever acts for it."""
        noise = self._draws(rng)
        self._noise = [noise if needs_noise else None for needs_noise in self._drawn]

    def draw_chance(self, rng: np.random.Generator) -> None:
        """Let scripts draw among their choices."""
        self._chance = [self._draws(rng) if needs_chance else None for needs_chance in self._scripted]

    def _draws(self, rng: np.random.Generator) -> Noise:
        return draws(self._environment.spec, self._environment.spec.horizon, self._environment.num_envs, rng)

    def play(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """One whole episode in each of the first `count` environments, from the start states of `rng`."""
        spec, num_envs = self._environment.spec, self._environment.num_envs
        episodes = Episodes(num_envs, len(spec.agents))
        observation = self._environment.reset(rng)
        running = np.arange(num_envs) < count
        for _ in range(spec.horizon):
            step = self._environment.step(self._actions(observation))
            for player in self._players:
                if player is not None:
                    player.forget(step.ended)
            episodes.add(step, running)
            running &= ~step.ended
            if not running.any():
                break
            observation = step.observation
        return episodes.first_returns()

    def _actions(self, observation: Observation) -> tuple[ActionArray, ...]:
        actions = [
            None if player is None else player.act(observation, self._now(noise), self._now(chance)).env_actions
            for player, noise, chance in zip(self._players, self._noise, self._chance, strict=True)
        ]
        self._step += 1
        return tuple(self._of_class(observation, index, actions) for index in range(len(self._members)))

    def _now(self, noise: Noise | None) -> Noise | None:
        return None if noise is None else tuple(part[self._step] for part in noise)

    def _of_class(
        self, observation: Observation, index: int, actions_of_teams: list[tuple[ActionArray, ...] | None]
    ) -> ActionArray:
        members = self._members[index]
        team_actions, other = (None if actions is None else actions[index] for actions in actions_of_teams)
        if (team_actions is None and members.any()) or (other is None and not members.all()):
            random_actions = self._random(observation, index)
            team_actions, other = (
                random_actions if team_actions is None else team_actions,
                random_actions if other is None else other,
            )
        if team_actions is None or other is None:  # no agent of the class needs the missing one
            merged_actions = other if team_actions is None else team_actions
            assert merged_actions is not None
            return merged_actions
        return np.where(members.reshape(1, -1, *(1,) * (team_actions.ndim - 2)), team_actions, other)

    def _random(self, observation: Observation, index: int) -> ActionArray:
        kind, num_envs = self._environment.spec.classes[index], self._environment.num_envs
        if kind.continuous:
            shape = (num_envs, len(kind.agents), kind.actions)
            return self._rng.uniform(kind.low, kind.high, shape).astype(np.float32)
        head, logits = distribution(kind), np.zeros((len(kind.agents), num_envs, kind.actions), np.float32)
        if observation.masks is not None:
            logits[~observation.masks[index].swapaxes(0, 1)] = ILLEGAL
        actions, _ = head.draw(logits, None, head.noise(logits.shape[:2], self._rng))
        return np.asarray(actions.swapaxes(0, 1))
