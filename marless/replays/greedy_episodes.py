"""Greedy episodes of a team, state by state."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.coordinator.core.sides import Side, sides_of
from marless.coordinator.errors import UserError
from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask, Unsupported, VectorEnvironment
from marless.functions.environments.scene import Colour, Scene
from marless.functions.errors import BadRequest
from marless.functions.messages.team import Opponents, Team
from marless.functions.policies import Player, draws
from marless.functions.randomness import generator
from marless.replays.environment_picture import Picture, picture, rendering
from marless.replays.scene_drawing import camera
from marless.reports.policy import TeamFile, TeamPolicy

# The default milliseconds of a frame, and the minimum: browsers show a GIF's frames no faster.
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
class SideReturns:
    """The rewards of a side's agents until a step, and the colour of its agents, if any."""

    name: str
    total: float
    colour: Colour | None


@dataclass(frozen=True)
class ReplayFrame:
    """A state of an episode after `step` steps, and the rewards until then, summed over agents. `sides` is empty if all
    agents are on one side."""

    picture: Picture
    step: int
    total: float
    sides: tuple[SideReturns, ...] = ()


class EpisodeStage:
    """A team in a separate environment. Its greedy episodes are played on request.

    They begin on start states that no evaluation sees: the same for every team with one seed. Errors of the environment
    and of a task that cannot be drawn are `UserError`s that name the task.
    """

    def __init__(self, team: TeamPolicy, seed: int) -> None:
        self._team, self._seed = team, seed
        with _fault_named_after(team.task):
            self._environment, self._refusal = _environment(team.task)

    @property
    def frame_ms(self) -> int:
        """The milliseconds of a frame, by the environment's `metadata["render_fps"]` if it has any."""
        rate = (getattr(registry.innermost(self._environment), "metadata", None) or {}).get("render_fps")
        return FRAME_MS if not isinstance(rate, int | float) or rate <= 0 else max(_SHORTEST, round(1000 / rate))

    def camera(self, number: int) -> float:
        """Return how many times as large as its field a picture must be to show a whole episode.

        It is 1 for environments that draw themselves, and for fields with walls.
        """
        with _fault_named_after(self._team.task, self._refusal):
            states = self._states(number)
            first = next(states).rendering
            if not isinstance(first, Scene) or first.walls:
                return 1.0
            later = (state.rendering for state in states if isinstance(state.rendering, Scene))
            return camera(chain((first,), later))

    def episode(self, number: int, larger: float = 1.0) -> Iterator[ReplayFrame]:
        """Yield the frames of one episode, independent of earlier episodes. An episode of n steps has n + 1 frames.

        `larger`: as of `camera`. Where the environment does not call its `before_reset`, the last frame repeats the
        picture before it.
        """
        with _fault_named_after(self._team.task, self._refusal):
            yield from (_frame(state, sides_of(self._environment.spec), larger) for state in self._states(number))

    def _states(self, number: int) -> Iterator["_State"]:
        return _states(self._environment, self._team.player(1), self._seed, number)

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


@dataclass(frozen=True)
class _State:
    """A state of an episode after `step` steps, and the rewards until then ``[agents]``."""

    rendering: Picture | Scene
    step: int
    returns: NDArray[np.float64]


def _frame(state: _State, sides: Sequence[Side], larger: float) -> ReplayFrame:
    colours = state.rendering.agent_colours if isinstance(state.rendering, Scene) else ()
    side_returns = tuple(
        SideReturns(
            side.name, float(state.returns[list(side.agents)].sum()), colours[side.agents[0]] if colours else None
        )
        for side in sides
    )
    return ReplayFrame(picture(state.rendering, larger), state.step, float(state.returns.sum()), side_returns)


def _states(environment: VectorEnvironment, player: Player, seed: int, number: int) -> Iterator[_State]:
    spec, last = environment.spec, list[Picture | Scene]()
    observation = environment.reset(generator(seed, "replay", number))
    chance = draws(spec, spec.horizon, 1, generator(seed, "replay", number, "actions"))
    # An environment with slots may not take it.
    with suppress(AttributeError):
        registry.innermost(environment).before_reset = lambda: last.append(rendering(environment))
    step, returns, done = 0, np.zeros(len(spec.agents)), False
    while not done:
        image = rendering(environment)
        yield _State(image, step, returns)
        result = environment.step(player.act(observation, chance=tuple(part[step] for part in chance)).env_actions)
        observation, done, returns = result.observation, bool(result.ended[0]), returns + result.rewards[0]
        step += 1
    yield _State(last[0] if last else image, step, returns)
