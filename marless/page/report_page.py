"""The page of `marless report`: about a run, or about many that are compared."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from marless.comparison.compare_runs import compare_runs
from marless.comparison.comparison import curves
from marless.comparison.run_evaluations import AXES, Axis
from marless.comparison.run_selection import folders_of
from marless.coordinator.errors import UserError
from marless.page import facts
from marless.page.comparison_section import MOST_SECTIONS, Compared
from marless.page.document import comparison_page, run_page
from marless.reports.atomic_files import replace
from marless.reports.provenance import written_by


def write_report(names: Sequence[str], path: Path, by: Sequence[str], at: Axis, metric: str) -> None:
    """Writes one page in HTML about a run, or about the named runs or the named folders' runs.

    `by`, `at` and `metric` have the meaning of `marless compare`. Raises `UserError` for incomparable runs, and for an
    unwritable page.
    """
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UserError(f"--out {path}: {why}; name a file such as report.html")
    body = _page(names, by, at, metric)
    try:
        replace(path, body.encode())
    except OSError as error:
        raise UserError(f"--out {path} cannot be written: {error.strerror}") from error


def _page(names: Sequence[str], by: Sequence[str], at: Axis, metric: str) -> str:
    folders = folders_of(names)
    if len(folders) == 1:
        return run_page(facts.read(folders[0]), written_by())
    result = compare_runs(names, by, at, metric)
    by_name = {folder.name: folder for folder in folders}
    runs = (by_name[each.name] for arm in result.arms for each in arm.every_run)
    return comparison_page(
        Compared(
            comparison=result.comparison,
            arms=result.arms,
            curves={axis: curves(result.arms, axis) for axis in AXES},
            facts=[facts.read(folder) for folder in islice(runs, MOST_SECTIONS)],
            left_out=result.left_out,
        ),
        written_by(),
    )
