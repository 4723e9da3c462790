"""Hanabi, of the package OpenSpiel: ``hanabi/full``, ``hanabi/small`` and ``hanabi/very_small``.

Players see each other's cards and not their own, tell each other about them, and build fireworks together. They take
turns, a turn per step (see `pettingzoo.turns`). `task.agents` is the number of players, 2 to 5. `task.options` change
the variant of the name. Every player gets an equal share of each change of the score, so that the return is the score.
It is a point for every card of a firework, 25 at most in ``full``, 10 and 5 in the others. Without life tokens all
points are lost. A game never ends by a time limit, so episodes terminate.

Source: Bard et al., "The Hanabi Challenge: A New Frontier for AI Research", 2020. OpenSpiel contains its learning
environment. PettingZoo's `hanabi_v5` takes the same from OpenSpiel, but refuses the smallest game, and pays the score
to every player.
"""

from importlib import import_module
from typing import Annotated, Any, Literal

import msgspec

from marless.functions.environments.base import EnvTask, VectorEnvironment, options_of
from marless.functions.environments.pettingzoo.adapter import assemble
from marless.functions.environments.pettingzoo.turns import StepResult, TurnEnvironment
from marless.functions.environments.scene import Box, Colour, Scene
from marless.functions.errors import MissingExtra
from marless_tasks.open_spiel import SpielGame

PREFIX = "hanabi/"
# The settings follow the learning environment of Bard et al. `full` has hands of four from four players on.
VARIANTS: dict[str, dict[str, int]] = {
    "full": {"colors": 5, "ranks": 5, "max_information_tokens": 8, "max_life_tokens": 3},
    "small": {"colors": 2, "ranks": 5, "max_information_tokens": 3, "max_life_tokens": 1, "hand_size": 2},
    "very_small": {"colors": 1, "ranks": 5, "max_information_tokens": 3, "max_life_tokens": 1, "hand_size": 2},
}
_INSTALL = "pip install 'pettingzoo>=1.27' 'open_spiel>=1.6.15'"
_COLOURS: dict[str, Colour] = {
    "R": (0.95, 0.5, 0.45),
    "Y": (0.97, 0.85, 0.4),
    "G": (0.5, 0.8, 0.5),
    "W": (0.93, 0.93, 0.95),
    "B": (0.45, 0.6, 0.95),
}
_ACTING: Colour = (1.0, 0.55, 0.0)

_FromOneToFive = Annotated[int, msgspec.Meta(ge=1, le=5)]


class HanabiOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options. OpenSpiel ends the process where one is outside its bounds."""

    colors: _FromOneToFive | None = None
    ranks: _FromOneToFive | None = None
    hand_size: _FromOneToFive | None = None
    max_information_tokens: Annotated[int, msgspec.Meta(ge=0, le=20)] | None = None
    max_life_tokens: Annotated[int, msgspec.Meta(ge=1, le=20)] | None = None
    observation_type: Literal["minimal", "card_knowledge", "seer"] = "card_knowledge"


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` games. Raises `ValueError` for unknown names, options and numbers of players, `MissingExtra` if a
    package is not installed."""
    settings = _settings(task)
    try:
        import_module("pettingzoo")
        game = import_module("pyspiel").load_game("hanabi", settings)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{task.name} needs OpenSpiel (the package '{error.name}' is not installed): {_INSTALL}"
        ) from error
    return assemble(EnvTask(name=task.name), num_envs, lambda: _Hanabi(task.name, game))


def _settings(task: EnvTask) -> dict[str, Any]:
    """OpenSpiel's parameters of the game."""
    variant = task.name.removeprefix(PREFIX)
    if variant not in VARIANTS:
        raise ValueError(f"{task.name}: Hanabi has no variant '{variant}'; there are: {', '.join(VARIANTS)}")
    players = 2 if task.agents is None else task.agents
    if not 2 <= players <= 5:
        raise ValueError(f"{task.name}: task.agents is {players}; there are 2 to 5 players")
    user_settings = {
        key: value for key, value in msgspec.to_builtins(options_of(task, HanabiOptions)).items() if value is not None
    }
    settings = {"players": players, "hand_size": 4 if players > 3 else 5, **VARIANTS[variant], **user_settings}
    # Every colour has three cards of the lowest rank, one of the highest, and two of each rank between.
    deck = settings["colors"] * (3 + max(0, 2 * settings["ranks"] - 3))
    if settings["hand_size"] * players >= deck:
        raise ValueError(
            f"{task.name}: {players} players with {settings['hand_size']} cards leave none of the {deck} cards; "
            "lower task.agents or task.options.hand_size"
        )
    return settings


class _Hanabi(TurnEnvironment):
    """A game that divides its score among the players."""

    def __init__(self, task: str, game: Any) -> None:
        self._table = SpielGame(game)
        super().__init__(task, self._table)

    def step(self, actions: dict[Any, Any]) -> StepResult:
        """One turn."""
        observations, rewards, terminations, cut, infos = super().step(actions)
        return (
            observations,
            {player: points / len(rewards) for player, points in rewards.items()},
            terminations,
            cut,
            infos,
        )

    def render(self) -> Scene:
        """Fireworks above, then a row of cards per player, the acting one's behind an orange bar."""
        table = import_module("pettingzoo.classic.hanabi.rendering").parse_hanabi_state(str(self._table.state))
        shapes = [
            Box(column + 0.3, 0.1, 0.8, 1.0, _COLOURS[colour], f"{colour}{height}")
            for column, (colour, height) in enumerate(table["fireworks"].items())
        ]
        for row, hand in enumerate(table["hands"]):
            top = 1.5 + 1.2 * row
            if row == table["cur_player"]:
                shapes.append(Box(0.1, top, 0.1, 1.0, _ACTING))
            shapes += [Box(column + 0.3, top, 0.8, 1.0, _COLOURS[card[0]], card) for column, card in enumerate(hand)]
        width = max(4.0, 0.3 + max(len(table["fireworks"]), *(len(hand) for hand in table["hands"])))
        text = f"{table['life']} lives, {table['info']} hints, {table['deck']} cards to draw"
        return Scene(width, 2.0 + 1.2 * len(table["hands"]), tuple(shapes), (text,))
