"""What runs came to, from Python: the same functions that the commands call."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from infra.local.own_process import cores
from marless.driving import playable
from marless.run import Run
from marless.runs import evaluation
from marless.runs.folder import RunFolder

if TYPE_CHECKING:
    from marless.comparison.curve import Axis
    from marless.comparison.tournament import Tournament
    from marless.exports.export import Exported

__all__ = ["crossplay", "evaluate", "export", "replay", "report"]

NamedRun = str | os.PathLike[str] | Run


def evaluate(run: NamedRun, episodes: int | None, workers: int | None, trust: bool) -> evaluation.EvaluationResult:
    """See `marless.evaluate`."""
    return evaluation.evaluate(playable(run, trust), workers or cores(), episodes)


def replay(run: NamedRun, path: str | os.PathLike[str] | None, episodes: int, beside: str | None, trust: bool) -> Path:
    """See `marless.replay`."""
    from marless.replays.recording import record

    return record(playable(run, trust), None if path is None else Path(path), episodes, beside)


def export(
    run: NamedRun,
    to: str,
    path: str | os.PathLike[str] | None,
    best: bool,
    episodes: int | None,
    greedy: bool,
    rounds: tuple[int, int] | None,
    trust: bool,
) -> "Exported":
    """See `marless.export`."""
    from marless.exports import export as exports

    folder = playable(run, trust) if episodes is not None else RunFolder.find(_text(run))
    return exports.export(folder, to, None if path is None else Path(path), best, episodes, greedy, rounds)


def report(
    runs: NamedRun | Sequence[NamedRun], path: str | os.PathLike[str], by: Sequence[str], at: "Axis", metric: str
) -> Path:
    """See `marless.report`."""
    from marless.page.report import write_report

    names = [runs] if isinstance(runs, str | os.PathLike | Run) else runs
    write_report([_text(each) for each in names], Path(path), by, at, metric)
    return Path(path)


def crossplay(
    runs: Sequence[NamedRun], episodes: int, sampled: bool, path: str | os.PathLike[str] | None, trust: bool
) -> "Tournament":
    """See `marless.crossplay`."""
    from marless.comparison import crossplay as tournaments

    played = tournaments.crossplay(playable(runs[0], trust), [_text(each) for each in runs], episodes, sampled)
    if path is not None:
        tournaments.write(played, Path(path))
    return played


def _text(run: NamedRun) -> str:
    return os.fspath(run.path if isinstance(run, Run) else run)
