"""Selects the finished runs that a user names: runs and folders of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from marless.comparison.run_evaluations import LACKS, ComparedRun, read
from marless.comparison.study_settings import listed_settings, ordered
from marless.coordinator.errors import UserError
from marless.program import program_name
from marless.reports.evaluations import METRIC
from marless.runs import summary
from marless.runs.folder import RunFolder
from marless.runs.run_store import LATEST, RUNS, runs_in

# Where commands that train many runs put their folders.
COLLECTIONS = (Path("studies"), Path("ablations"))
# Where commands that are cut short leave something, unless they were given another place.
PLACES = (RUNS.root, *COLLECTIONS, Path())
# Every such folder has one of these files.
_DECLARATIONS = ("study.json", "ablation.json")
# A run that stop.dollars stopped has spent its budget and counts up to there. An interrupted or running one will
# continue, and a failed one has a fault, so its last return says little of its settings.
_ENDED = ("finished", "stopped")
# So many are named in an error.
_NAMED = 8


@dataclass(frozen=True)
class Collected:
    """The runs in the order of the arguments, and why others were left out, by name."""

    runs: tuple[ComparedRun, ...]
    left_out: dict[str, str]


def collect(texts: Sequence[str], metric: str = METRIC) -> Collected:
    """The runs that these arguments name. Raises `UserError` if there is none or one is unreadable."""
    runs: list[ComparedRun] = []
    left_out: dict[str, str] = {}
    setting_of = listed_settings()
    for folder in folders_of(texts):
        run_summary = summary.read(folder)
        if run_summary is None or run_summary.status not in _ENDED:
            left_out[folder.name] = run_summary.status if run_summary else "unfinished"
            continue
        run = read(folder.name, folder.path, folder.config(), run_summary, setting_of(folder), metric)
        if isinstance(run, str):
            left_out[folder.name] = run
        else:
            runs.append(run)
    if not runs:
        raise UserError(_none(left_out, metric))
    return Collected(tuple(runs), left_out)


def _none(left_out: Mapping[str, str], metric: str) -> str:
    lacking = dict.fromkeys(why for why in left_out.values() if why.startswith(LACKS.format(metric, "")))
    if lacking:
        return f"--metric {metric}: no run that has ended has it: {'; '.join(islice(lacking, _NAMED))}"
    named_runs = "; ".join(f"{name}: {why}" for name, why in islice(left_out.items(), _NAMED))
    more = f"; and {len(left_out) - _NAMED:,} more" if len(left_out) > _NAMED else ""
    return f"no run to compare has come to an end ({named_runs}{more})"


def folders_of(texts: Sequence[str]) -> list[RunFolder]:
    """The runs that these arguments name, each once. Raises `UserError` for an unknown name."""
    return list({folder.path.resolve(): folder for text in texts for folder in _folders(text)}.values())


def collection_of(text: str) -> Path | None:
    """The folder of the study or ablation called `text`, or None, also if a run has that name."""
    if RUNS.holds(text):
        return None
    roots = (Path(text), *(root / text for root in COLLECTIONS))
    return next((root for root in roots if any((root / name).is_file() for name in _DECLARATIONS)), None)


def _folders(text: str) -> list[RunFolder]:
    roots = [Path(text), *(root / text for root in COLLECTIONS)]
    # A run of this name comes first, like in other commands.
    if not RUNS.holds(text) and (root := next((root for root in roots if (root / "runs").is_dir()), None)):
        return _inside(root)
    try:
        return [RUNS.find(text)]
    except UserError as error:
        if text == LATEST or any(path.exists() for path in (*roots, RUNS.root / text)):
            raise
        raise UserError(
            f"there is no run, study or ablation {text}; `{program_name()} runs` lists runs, and a folder of several"
            " has them in its sub-folder runs/"
        ) from error


def _inside(root: Path) -> list[RunFolder]:
    if not (paths := runs_in(root / "runs")):
        raise UserError(f"{root / 'runs'} holds no runs")
    return [RunFolder(path) for path in ordered(root, paths)]
