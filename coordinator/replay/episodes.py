"""Greedy episodes of a team, state by state."""

from contextlib import suppress
from dataclasses import dataclass

import msgspec

from coordinator.errors import UserError
from coordinator.replay.picture import Picture, drawn_environment, picture
from coordinator.reports.policy import TeamFile, TeamPolicy
from functions.contract import Opponents, Team
from functions.environments import registry
from functions.environments.base import EnvTask, VectorEnvironment
from functions.policies import Player, draws
from functions.randomness import generator

# By the prefix of their names.
_DRAWN_ELSEWHERE = dict.fromkeys(
    ("smac/", "smacv2/"),
    "StarCraft II shows its battles itself: export the policies (marless export), play them with the task's own package"
    " and call its save_replay()",
)


@dataclass(frozen=True)
class Frame:
    """A state of an episode after `step` steps, and the rewards until then, summed over agents."""

    picture: Picture
    step: int
    total: float


Episode = list[Frame]


def play(team: TeamPolicy, episodes: int, seed: int) -> list[Episode]:
    """Greedy episodes on start states that no evaluation sees: the same for every team with one seed.

    An episode of n steps has n + 1 frames. Where the environment does not call its `before_reset`, the last of them
    repeats the picture before it. Raises what `registry.make` raises, and `UserError` when the task cannot be drawn.
    """
    environment = registry.make(_drawing(team.task), 1)
    try:
        return [_episode(environment, team.player(1), seed, number) for number in range(episodes)]
    finally:
        environment.close()


def random_team(team: TeamPolicy) -> TeamPolicy:
    """Agents of the same task that act at random."""
    agents = tuple(range(len(team.agents)))
    nobody_learns = Team(groups=agents, opponents=Opponents(agents=agents, acting="random"))
    return TeamPolicy(TeamFile(task=team.task, spec=team.spec, team=nobody_learns), {})


def _drawing(task: EnvTask) -> EnvTask:
    """The task with pictures, where they have to be asked for; raises `UserError` for one that we do not draw."""
    for prefix, reason in _DRAWN_ELSEWHERE.items():
        if task.name.startswith(prefix):
            raise UserError(reason)
    if task.name.startswith("pettingzoo:"):
        return msgspec.structs.replace(task, options=task.options | {"render_mode": "rgb_array"})
    return task


def _episode(environment: VectorEnvironment, player: Player, seed: int, number: int) -> Episode:
    spec, last = environment.spec, list[Picture]()
    seen = environment.reset(generator(seed, "replay", number))
    chance = draws(spec, spec.horizon, 1, generator(seed, "replay", number, "actions"))
    # An environment with slots may not take it.
    with suppress(AttributeError):
        drawn_environment(environment).before_reset = lambda: last.append(picture(environment))
    frames, total, ended = Episode(), 0.0, False
    while not ended:
        frames.append(Frame(picture(environment), len(frames), total))
        choice = player.act(seen, chance=tuple(part[len(frames) - 1] for part in chance))
        result = environment.step(choice.played)
        seen, ended, total = result.observation, bool(result.ended[0]), total + float(result.rewards.sum())
    return [*frames, Frame(last[0] if last else frames[-1].picture, len(frames), total)]
