"""Plays each side of a run's policies against fixed opponents: random ones, a script, or the policies of
another run."""

from collections.abc import Callable, Sequence

import msgspec

from marless.coordinator.config.schema import RANDOM
from marless.coordinator.errors import UserError
from marless.functions.environments.base import EnvironmentFault, Unsupported
from marless.functions.errors import BadRequest
from marless.reports import crossplay, statistics
from marless.reports.notebook.shown_result import ShownResult
from marless.reports.policy import TeamPolicy
from marless.reports.section import Section
from marless.reports.statistics import FinalReturn
from marless.reports.text import plus_minus
from marless.runs.folder import RunFolder
from marless.runs.resources.resources_of_run import resources_of
from marless.runs.run_policies import find_policies, load_team
from marless.runs.run_store import RUNS, RunStore

_HEADER = ("side", "against", "return")


class SideReturn(msgspec.Struct, frozen=True, kw_only=True):
    """The undiscounted returns of `side`, summed over its agents. `against` names the policies of all others."""

    side: str
    against: str
    returns: FinalReturn


class CrossEvaluation(ShownResult, msgspec.Struct, frozen=True, kw_only=True):
    """The greedy returns of the policies of `run` after `round` rounds."""

    run: str
    round: int
    episodes: int
    plays: tuple[SideReturn, ...]

    @property
    def headline(self) -> str:
        """Return the run, its policies and the number of episodes."""
        return f"{self.run}, policies of round {self.round:,}, greedy, {self.episodes:,} episodes per line"

    @property
    def sections(self) -> list[Section]:
        """Return the table of the returns."""
        rows = tuple((play.side, play.against, plus_minus(play.returns)) for play in self.plays)
        return [
            Section("", _HEADER, rows, footnote="(undiscounted, summed over the side's agents, with 95 % interval)")
        ]


def plays(
    folder: RunFolder,
    against: Sequence[str],
    episodes: int | None,
    progress: Callable[[str], None] = lambda text: None,
    store: RunStore = RUNS,
) -> CrossEvaluation:
    """Play every side against every opponent, on the same start states. `progress` is told which match begins.
    Opponents may be runs in the `store`.

    A side that acted at random in training is left out. Raises `UserError` for a task without sides and for unsuitable
    opponents.
    """
    run, team = load_team(folder)
    opponents = {text: opponent(text, team, store) for text in dict.fromkeys(against)}
    config = run.plan.config
    count = episodes or config.evaluation_sizes(run.saved_state.env_spec.horizon).final
    try:
        with resources_of(folder):
            side_returns = tuple(
                SideReturn(side=side, against=text, returns=statistics.summary(returns))
                for side, text, returns in crossplay.play_sides(team, opponents, count, config.seed, progress)
            )
    except (ValueError, BadRequest, EnvironmentFault, Unsupported) as error:
        raise UserError(f"against: {error}") from error
    return CrossEvaluation(run=run.plan.run, round=run.saved_state.round, episodes=count, plays=side_returns)


def opponent(text: str, team: TeamPolicy, store: RunStore) -> TeamPolicy | None:
    """The named opponent: None for random play, else a scripted player, or the newest policies of a file or a run in
    the store.

    Raises `UserError`.
    """
    return None if text == RANDOM else find_policies(text, team.task, "against", store)
