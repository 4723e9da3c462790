"""Greedy episodes of a team, state by state."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec

from coordinator.errors import UserError
from functions.environments import registry
from functions.environments.base import EnvironmentFault, EnvTask, Unsupported, VectorEnvironment
from functions.errors import BadRequest
from functions.messages.team import Opponents, Team
from functions.policies import Player, draws
from functions.randomness import generator
from marless.replays.environment_picture import Picture, picture
from marless.reports.policy import TeamFile, TeamPolicy

# How long a frame stays where the environment does not say, and at least: browsers show a GIF's frames no faster.
FRAME_MS, _SHORTEST = 80, 20
# By the prefix of their names.
_DRAWN_ELSEWHERE = dict.fromkeys(
    ("smac/", "smacv2/"),
    "StarCraft II shows its battles itself: export the policies (marless export), play them with the task's own package"
    " and call its save_replay()",
)
# Environments of other packages that return pictures.
_PICTURES_ON_REQUEST, _ASKED = ("pettingzoo:", "mamujoco/"), {"render_mode": "rgb_array"}


@dataclass(frozen=True)
class Frame:
    """A state of an episode after `step` steps, and the rewards until then, summed over agents."""

    picture: Picture
    step: int
    total: float


class Stage:
    """A team in an environment of its own; its greedy episodes are played as they are asked for.

    They begin on start states that no evaluation sees: the same for every team with one seed. Errors of the environment
    and of a task that cannot be drawn are `UserError`s that name the task.
    """

    def __init__(self, team: TeamPolicy, seed: int) -> None:
        self._team, self._seed = team, seed
        with _fault_named_after(team.task):
            self._environment, self._refusal = _environment(team.task)

    @property
    def frame_ms(self) -> int:
        """How long a frame stays: by the environment's `metadata["render_fps"]` if it has any."""
        rate = (getattr(registry.innermost(self._environment), "metadata", None) or {}).get("render_fps")
        return FRAME_MS if not isinstance(rate, int | float) or rate <= 0 else max(_SHORTEST, round(1000 / rate))

    def episode(self, number: int) -> Iterator[Frame]:
        """The frames of one episode, whatever was played before; one of n steps has n + 1.

        Where the environment does not call its `before_reset`, the last of them repeats the picture before it.
        """
        with _fault_named_after(self._team.task, self._refusal):
            yield from _episode(self._environment, self._team.player(1), self._seed, number)

    def close(self) -> None:
        """Closes the environment."""
        self._environment.close()


@contextmanager
def _fault_named_after(task: EnvTask, refusal: str = "") -> Iterator[None]:
    try:
        yield
    except (BadRequest, EnvironmentFault, Unsupported, UserError) as error:
        text = str(error) if str(error).startswith(task.name) else f"{task.name}: {error}"
        raise UserError(f"{text}; {refusal}" if refusal else text) from error


def random_team(team: TeamPolicy) -> TeamPolicy:
    """Agents of the same task that act at random."""
    agents = tuple(range(len(team.agents)))
    nobody_learns = Team(groups=agents, opponents=Opponents(agents=agents, acting="random"))
    return TeamPolicy(TeamFile(task=team.task, spec=team.spec, team=nobody_learns), {})


def _environment(task: EnvTask) -> tuple[VectorEnvironment, str]:
    """One environment, with pictures if they have to be asked for, and why its factory refused to be asked or ''.

    Raises `UserError` for a task that we do not draw.
    """
    refusal = ""
    for prefix, reason in _DRAWN_ELSEWHERE.items():
        if task.name.startswith(prefix):
            raise UserError(reason)
    if task.name.startswith(_PICTURES_ON_REQUEST):
        try:
            return registry.make(msgspec.structs.replace(task, options=task.options | _ASKED), 1), ""
        except BadRequest as error:  # environments without this option may return pictures nevertheless
            refusal = f"asked for pictures: {error}"
    return registry.make(task, 1), refusal


def _episode(environment: VectorEnvironment, player: Player, seed: int, number: int) -> Iterator[Frame]:
    spec, last = environment.spec, list[Picture]()
    observation = environment.reset(generator(seed, "replay", number))
    chance = draws(spec, spec.horizon, 1, generator(seed, "replay", number, "actions"))
    # An environment with slots may not take it.
    with suppress(AttributeError):
        registry.innermost(environment).before_reset = lambda: last.append(picture(environment))
    step, total, done = 0, 0.0, False
    while not done:
        image = picture(environment)
        yield Frame(image, step, total)
        result = environment.step(player.act(observation, chance=tuple(part[step] for part in chance)).env_actions)
        observation, done, total = result.observation, bool(result.ended[0]), total + float(result.rewards.sum())
        step += 1
    yield Frame(last[0] if last else image, step, total)
