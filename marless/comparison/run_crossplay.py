"""Cross-play of runs: the checkpoints of a league, or the newest policies of several runs, and its files."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from marless.comparison import comparison_plots, crossplay_tournament
from marless.comparison.crossplay_tournament import Tournament
from marless.coordinator.errors import UserError
from marless.functions.encoding import to_json
from marless.functions.environments.base import EnvironmentFault, EnvTask, Unsupported
from marless.functions.errors import BadRequest, MissingExtra
from marless.reports.atomic_files import replace
from marless.reports.policy import TeamPolicy
from marless.runs import cross_evaluation
from marless.runs.folder import RunFolder
from marless.runs.resources.resources_of_run import resources_of
from marless.runs.run_policies import load_checkpoints, load_team
from marless.runs.run_store import RUNS, RunStore

_LOGGER = logging.getLogger(__name__)


def crossplay(
    folder: RunFolder,
    names: Sequence[str],
    episodes: int,
    sampled: bool,
    progress: Callable[[str], None] = lambda pair: None,
    store: RunStore = RUNS,
) -> Tournament:
    """Plays the newest policies of the run in `folder`, `names[0]`, and the others that are named: runs in the
    `store`, policy files, scripts and ``random``. A run alone is played by the checkpoints of its league and its newest
    policies.

    Raises `UserError` for teams that cannot play each other, and where an interval is asked of one episode.
    """
    if episodes < 2:
        raise UserError("--episodes: an interval needs 2 at least")
    task, seed, teams = _league(folder) if len(names) == 1 else _teams(folder, names, store)
    try:
        with resources_of(folder):
            return crossplay_tournament.play(teams, task, episodes, seed, sampled, progress)
    except (ValueError, BadRequest, EnvironmentFault, Unsupported) as error:
        raise UserError(f"{folder.name}: {error}") from error


def write(result: Tournament, folder: Path) -> None:
    """Writes crossplay.json and crossplay.png. A missing matplotlib costs only the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / "crossplay.json", to_json(result))
    try:
        comparison_plots.draw_scores(result, folder / "crossplay.png")
    except MissingExtra as error:
        _LOGGER.warning("no picture: %s", error)
    else:
        _LOGGER.info("drawn in %s", folder / "crossplay.png")


def _league(folder: RunFolder) -> tuple[EnvTask, int, dict[str, TeamPolicy | None]]:
    stored_run, checkpoints = load_checkpoints(folder)
    _, newest = load_team(folder)
    teams: dict[str, TeamPolicy | None] = {**checkpoints, f"round {stored_run.saved_state.round}": newest}
    return newest.task, stored_run.plan.config.seed, teams


def _teams(
    folder: RunFolder, names: Sequence[str], store: RunStore
) -> tuple[EnvTask, int, dict[str, TeamPolicy | None]]:
    stored_run, first = load_team(folder)
    teams = {names[0]: first, **{name: cross_evaluation.opponent(name, first, store) for name in names[1:]}}
    if len(teams) < len(names):
        raise UserError(f"a team is named twice: {' '.join(names)}")
    return first.task, stored_run.plan.config.seed, teams
