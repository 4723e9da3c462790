"""Each side of a run's policies against opponents that do not learn: those who act at random, or another run's."""

from collections.abc import Sequence

import msgspec

from coordinator.config.schema import RANDOM
from coordinator.errors import UserError
from coordinator.reports import crossplay, statistics
from coordinator.reports.policy import TeamPolicy
from coordinator.reports.statistics import FinalReturn
from coordinator.reports.text import plus_minus, table
from coordinator.runs.folder import RunFolder
from coordinator.runs.policies import find_policies, load_team
from functions.contract import BadRequest
from functions.environments.base import EnvironmentFault, Unsupported

_HEADER = ("side", "against", "return")


class Play(msgspec.Struct, frozen=True, kw_only=True):
    """The returns of `side`, undiscounted and summed over its agents, all others acting as `against` says."""

    side: str
    against: str
    returns: FinalReturn


class Plays(msgspec.Struct, frozen=True, kw_only=True):
    """What the policies of `run` after `round` rounds got, greedily."""

    run: str
    round: int
    episodes: int
    plays: tuple[Play, ...]


def plays(folder: RunFolder, against: Sequence[str], episodes: int | None) -> Plays:
    """Every side against every opponent, on the same start states; `episodes` are evaluation.final_episodes by default.

    A side that acted at random in training has no policies to play. Raises `UserError` for a task without sides, and
    for opponents that cannot play it.
    """
    found, own = load_team(folder)
    opponents = {text: opponent(text, own) for text in dict.fromkeys(against)}
    config = found.plan.config
    count = episodes or config.evaluation.final_episodes
    try:
        played = tuple(
            Play(side=side, against=text, returns=statistics.summary(_totals(own, side, team, count, config.seed)))
            for side in crossplay.sides(own.task)
            if all(own.plays(agent) for agent in crossplay.members(own.task, side))
            for text, team in opponents.items()
        )
    except (ValueError, BadRequest, EnvironmentFault, Unsupported) as error:
        raise UserError(f"--against: {error}") from error
    return Plays(run=found.plan.run, round=found.kept.round, episodes=count, plays=played)


def opponent(text: str, own: TeamPolicy) -> TeamPolicy | None:
    """Who is meant: None for chance, the newest policies of a run, or those of a policy file; raises `UserError`."""
    return None if text == RANDOM else find_policies(text, own.task, "--against")


def lines(found: Plays) -> list[str]:
    """The same for people."""
    said = f"{found.run}, policies of round {found.round:,}, greedy, {found.episodes:,} episodes for every line"
    rows = [(play.side, play.against, plus_minus(play.returns)) for play in found.plays]
    return [said, table(_HEADER, rows), "(undiscounted, sum over the side's agents, with its 95 % interval)"]


def _totals(own: TeamPolicy, side: str, team: TeamPolicy | None, episodes: int, seed: int) -> list[float]:
    returns: list[float] = crossplay.totals(own.task, own, side, team, episodes, seed).tolist()
    return returns
