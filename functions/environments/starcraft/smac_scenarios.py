"""Maps ``smac/<map>`` and ``smacv2/<race>_<n>_vs_<m>`` to the packages that implement them.

Each family has its own package. SMACv2 lists the maps of SMAC, but cannot play them (github.com/oxwhirl/smacv2, issue
30). A process that imports both can play neither (issue 46). SMACv2 takes any team sizes. Published ones are 5, 10 and
20 of every race against as many, 10 against 11, and 20 against 23.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.environments.pettingzoo.guard import describe_error, describe_error_with_location
from marless.functions.errors import MissingExtra

# How to install each package (neither is on PyPI) and its maps. The extra has dependencies that SMAC does not declare.
PACKAGES = {
    "smac": "pip install 'marless[smac]' 'smac @ git+https://github.com/oxwhirl/smac'",
    "smacv2": "pip install 'smacv2 @ git+https://github.com/oxwhirl/smacv2'",
}
_MAPS = {
    "smac": "https://github.com/oxwhirl/smac/releases/download/v0.1-beta1/SMAC_Maps.zip",
    "smacv2": "SMAC_Maps.zip of https://github.com/oxwhirl/smacv2/releases/tag/maps",
}
_GAME = (
    "StarCraft II in the folder that SC2PATH names, ~/StarCraftII by default "
    "(for Linux: https://github.com/Blizzard/s2client-proto#downloads)"
)

# Per race the units, their probabilities, and the units that cannot form a whole team: `smacv2/examples/configs`.
_RACES: dict[str, tuple[list[str], list[float], list[str]]] = {
    "protoss": (["stalker", "zealot", "colossus"], [0.45, 0.45, 0.1], []),
    "terran": (["marine", "marauder", "medivac"], [0.45, 0.45, 0.1], ["medivac"]),
    "zerg": (["zergling", "baneling", "hydralisk"], [0.45, 0.1, 0.45], ["baneling"]),
}
_MATCH = re.compile(r"([a-z]+)_([1-9]\d*)_vs_([1-9]\d*)")
# Also from those configurations, where they differ from the package's defaults.
_V2_SETTINGS: dict[str, Any] = {"obs_own_pos": True, "use_unit_ranges": True, "min_attack_range": 2}

# Options that are set here, or useless because replays are not returned.
_OURS = ("map_name", "seed", "capability_config", "continuing_episode", "replay_dir", "replay_prefix")


@dataclass(frozen=True)
class Scenario:
    """A task's package, and `build`, which makes a game from a seed without starting StarCraft."""

    name: str
    package: str
    build: Callable[[int], Any]

    def needs_game(self, reason: str) -> MissingExtra:
        """The error when StarCraft does not start."""
        return MissingExtra(f"{self.name} needs {_GAME}: {reason}")

    def needs_maps(self, reason: str) -> MissingExtra:
        """The error when StarCraft does not have the map."""
        return MissingExtra(f"{self.name} needs the maps of {_MAPS[self.package]} in $SC2PATH/Maps/SMAC_Maps: {reason}")


def scenario_of(task: EnvTask, options: dict[str, Any]) -> Scenario:
    """The scenario that `task` names, with `options` for the package's `StarCraft2Env`.

    Raises `ValueError` for an unknown name or option, `MissingExtra` if the package is missing, and `EnvironmentFault`
    if it does not load.
    """
    if fixed_options := [key for key in _OURS if key in options]:
        raise ValueError(f"{task.name}: task.options.{fixed_options[0]} cannot be chosen")
    package, _, scenario = task.name.partition("/")
    if package == "smac":
        make, settings = _smac(task.name, scenario)
    else:
        make, settings = _smacv2(task.name, scenario)

    def build(seed: int) -> Any:
        """A game of the package with this seed."""
        # `continuing_episode` makes the packages report that the time limit cut an episode: `info["episode_limit"]`.
        arguments = {**settings(), **options, "seed": seed, "continuing_episode": True}
        try:
            return make(**arguments)
        except TypeError as error:
            raise ValueError(
                f"{task.name}: {package} refuses task.options {options}: {describe_error(error)}"
            ) from error

    return Scenario(task.name, package, build)


def _smac(name: str, map_name: str) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    make = _module(name, "smac.env").StarCraft2Env
    maps = _module(name, "smac.env.starcraft2.maps.smac_maps").get_smac_map_registry()
    if map_name not in maps:
        nearest = ", ".join(difflib.get_close_matches(map_name, maps, cutoff=0.5) or sorted(maps))
        raise ValueError(f"{name}: SMAC has no map '{map_name}'; there are: {nearest}")
    return make, lambda: {"map_name": map_name}


def _smacv2(name: str, scenario: str) -> tuple[Callable[..., Any], Callable[[], dict[str, Any]]]:
    match = _MATCH.fullmatch(scenario)
    if match is None or match[1] not in _RACES:
        races = ", ".join(sorted(_RACES))
        raise ValueError(f"{name}: write it as 'smacv2/<race>_<n>_vs_<m>', a race of {races}")
    race, allies, enemies = match[1], int(match[2]), int(match[3])
    make = _module(name, "smacv2.env.starcraft2.wrapper").StarCraftCapabilityEnvWrapper

    def settings() -> dict[str, Any]:
        # A new dictionary for every game, because the package writes into it.
        return {"map_name": f"10gen_{race}", "capability_config": _capabilities(race, allies, enemies), **_V2_SETTINGS}

    return make, settings


def _capabilities(race: str, allies: int, enemies: int) -> dict[str, Any]:
    """Teams drawn by weight, the enemy's like ours, which start around us with probability ½ and else mirrored."""
    units, weights, exceptions = _RACES[race]
    team: dict[str, Any] = {
        "dist_type": "weighted_teams",
        "unit_types": list(units),
        "weights": list(weights),
        "observe": True,
    }
    if exceptions:
        team["exception_unit_types"] = list(exceptions)
    start = {"dist_type": "surrounded_and_reflect", "p": 0.5, "map_x": 32, "map_y": 32}
    return {"n_units": allies, "n_enemies": enemies, "team_gen": team, "start_positions": start}


def _module(name: str, path: str) -> Any:
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        package = path.partition(".")[0]
        missing = (error.name or path).partition(".")[0]
        raise MissingExtra(
            f"{name} needs the package '{missing}', which is not installed: {PACKAGES[package]}; and {_GAME}; "
            f"and the maps of {_MAPS[package]} in its Maps/SMAC_Maps"
        ) from error
    except Exception as error:
        raise EnvironmentFault(f"{name}: import of '{path}': {describe_error_with_location(error)}") from error
