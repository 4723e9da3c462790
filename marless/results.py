"""The results of runs, studies and comparisons. They have `frame()`, `plot()` and a table in notebooks."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from marless.ablation.ablate import AblationResult
from marless.comparison.compare_runs import RunComparison
from marless.comparison.comparison import Comparison
from marless.comparison.crossplay_tournament import Tournament
from marless.comparison.paired_by_seed import PairedComparison
from marless.comparison.run_evaluations import Axis
from marless.coordinator.errors import UserError
from marless.estimation.estimate import Estimate
from marless.estimation.forecast import Simulated
from marless.estimation.run_plan import RunPlan
from marless.estimation.simulation import Simulations
from marless.exports.export import Exported
from marless.infra.local.available_cores import cores
from marless.reports.policy import TeamPolicy
from marless.run import Run
from marless.runs.cross_evaluation import CrossEvaluation
from marless.runs.evaluation import EvaluationResult
from marless.runs.integrity.trusted_origin import playable
from marless.runs.run_store import RUNS
from marless.runs.summary import Summary
from marless.studies.train_study import StudyResult
from marless.user_errors import path_of, short_errors

__all__ = [
    "AblationResult",
    "Comparison",
    "CrossEvaluation",
    "Estimate",
    "EvaluationResult",
    "Exported",
    "PairedComparison",
    "RunComparison",
    "RunPlan",
    "Simulated",
    "Simulations",
    "StudyResult",
    "Summary",
    "TeamPolicy",
    "Tournament",
]


@overload
def evaluate(
    run: str | os.PathLike[str],
    *,
    episodes: int | None = None,
    workers: int | None = None,
    task: Mapping[str, Any] | None = None,
    greedy: bool | None = None,
    trust: bool = False,
) -> EvaluationResult:
    """Play the run's own task."""


@overload
def evaluate(
    run: str | os.PathLike[str], *, against: str | Sequence[str], episodes: int | None = None, trust: bool = False
) -> CrossEvaluation:
    """Play each side against the opponents."""


@short_errors()
def evaluate(
    run: str | os.PathLike[str],
    *,
    episodes: int | None = None,
    workers: int | None = None,
    task: Mapping[str, Any] | None = None,
    greedy: bool | None = None,
    against: str | Sequence[str] = (),
    trust: bool = False,
) -> EvaluationResult | CrossEvaluation:
    """Play a run's newest policies on fresh start states. Returns are undiscounted.

    Args:
        run: the run, its name or its folder.
        episodes: the number of episodes. The default is the number of the run's final evaluation.
        workers: worker processes. The default is one per core.
        task: keys of the task that differ from training.
        greedy: play the most probable actions. With False, actions are sampled. The default is ``evaluation.greedy``.
        against: opponents of each side if agents compete: ``random``, ``scripted``, or the policies of a run or a file.
        trust: a run that another person made may run the code that its configuration names. This is remembered.

    Raises `UserError` if the run has no policies, or they do not fit the task.
    """
    if not against:
        return Run(run).evaluate(episodes=episodes, workers=workers, task=task, greedy=greedy, trust=trust)
    from marless.runs import cross_evaluation
    from marless.views import cell_progress

    if task or greedy is False:
        raise UserError("against plays the task of the run with greedy actions: leave task and greedy away")
    with cell_progress() as progress:
        return cross_evaluation.plays(
            playable(run, trust), [against] if isinstance(against, str) else against, episodes, progress
        )


@short_errors(path="out")
def replay(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    episodes: int = 3,
    *,
    beside: str | None = None,
    agents: int | None = None,
    trust: bool = False,
) -> Path:
    """Draw greedy episodes of a run's newest policies as an animation, and return its path. A notebook shows a GIF.

    Args:
        run: the run, its name or its folder.
        out: a ``.gif``, or an ``.mp4`` by the program ffmpeg. The default is the run's ``replay.gif``.
        episodes: the number of episodes, 1 or more.
        beside: a second panel on the same start states: ``random``, ``scripted``, or a run or policy file of the task.
        agents: the number of agents, if it differs from training.
        trust: see `evaluate`.

    Raises `UserError` if policies are missing, the task cannot be drawn or the file cannot be written.
    """
    return Run(run).replay(out, episodes, beside=beside, agents=agents, trust=trust)


@short_errors(path="out")
def export(
    run: str | os.PathLike[str],
    to: str,
    out: str | os.PathLike[str] | None = None,
    *,
    best: bool = False,
    episodes: int | None = None,
    greedy: bool = False,
    rounds: tuple[int, int] | None = None,
    agents: int | None = None,
    workers: int | None = None,
    trust: bool = False,
) -> Exported:
    """Write a run's policies, or episodes, in a new folder for other programs.

    Args:
        run: the run, its name or its folder.
        to: the format: ``onnx``, ``torch`` or ``safetensors`` for policies, ``npz`` or ``parquet`` for episodes.
        out: the folder. By default it is ``exports/RUN-FORMAT``.
        best: write the policies of the best evaluation in place of the newest.
        episodes: the number of episodes to play.
        greedy: play the most probable actions.
        rounds: write the rollouts of training from the first to the last of these rounds. If the run does not store
            them, it is played again from its first round and compared with its record.
        agents: see `replay`.
        workers: worker processes that play it again. The default is one per core.
        trust: see `evaluate`, needed to play episodes.

    Raises `UserError` if the format is unsuitable, data of the run are missing, or the folder is taken.
    """
    from marless.exports import export as exports
    from marless.exports.replayed_rounds import PlayAgain

    folder, again = RUNS.find(path_of(run)), PlayAgain(workers or cores())
    if episodes is not None or (rounds is not None and not exports.stores_rounds(folder, rounds)):
        folder = playable(run, trust)
    return exports.export(
        folder, to, None if out is None else Path(out), best, episodes, greedy, rounds, again, agents=agents
    )


@short_errors(path="out")
def report(
    runs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "latest",
    out: str | os.PathLike[str] = "report.html",
    *,
    by: Sequence[str] = (),
    at: Axis = "steps",
    metric: str = "return",
) -> Path:
    """Write one page in HTML about a run, or a comparison of several runs, and return its path.

    Args:
        runs: a run, or several. The folder of a study means all its runs.
        out: the page.
        by: keys of the configuration that tell arms apart, such as ``algorithm.name``.
        at: compare runs at equal ``steps``, ``seconds`` or ``dollars``.
        metric: a metric of the environment to compare in place of the return.

    Raises `UserError` if runs cannot be compared or the page cannot be written.
    """
    from marless.page.report_page import write_report

    names = runs if isinstance(runs, list | tuple) else [runs]
    write_report([*map(path_of, names)], Path(out), by, at, metric)
    return Path(out)


@short_errors(path="out")
def crossplay(
    *runs: str | os.PathLike[str],
    episodes: int = 320,
    sampled: bool = False,
    out: str | os.PathLike[str] | None = None,
    trust: bool = False,
) -> Tournament:
    """Play every team against every other team, on either side of the task, and rate the teams by their wins.

    Args:
        runs: the first is a run. The others are runs, policy files, ``random`` or ``scripted``. A single run plays
            its newest policies against the checkpoints of its league.
        episodes: the episodes of each pair and side, 2 or more.
        sampled: draw actions at random. Greedy games without chance are all equal.
        out: the folder for crossplay.json and crossplay.png. By default, nothing is written.
        trust: as in `evaluate`.

    Raises `UserError` for teams that cannot play each other.
    """
    from marless.comparison import run_crossplay as tournaments
    from marless.views import cell_progress

    with cell_progress() as progress:
        tournament = tournaments.crossplay(playable(runs[0], trust), [*map(path_of, runs)], episodes, sampled, progress)
    if out is not None:
        tournaments.write(tournament, Path(out))
    return tournament
