"""marless report: writes one page in HTML about a run, or about many that are compared."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from coordinator.errors import FINISHED, UserError
from marless.cli import arguments as common
from marless.comparison.arms import arms_of
from marless.comparison.collection import collect, folders_of
from marless.comparison.comparison import compare, curves
from marless.comparison.curve import AXES, Axis
from marless.output import say
from marless.page import facts
from marless.page.comparison_section import MOST_SECTIONS, Compared
from marless.page.document import comparison_page, run_page
from marless.reports.files import replace
from marless.reports.provenance import written_by
from marless.runs.folder import LATEST

EXAMPLES = """examples:
  marless report                                 the latest run
  marless report my_run -o my_run.html
  marless report my_study --by algorithm.name    all runs of a study, compared

docs/how-to/report.md explains the page."""


def arguments(parser: ArgumentParser) -> None:
    """What `marless report` takes."""
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN_OR_STUDY",
        help=f"runs, or folders that hold runs: studies, ablations (default: {LATEST})",
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page (default: %(default)s)"
    )
    parser.add_argument(
        "--by",
        type=common.keys,
        default=[],
        metavar="KEY,KEY",
        help="of several runs: keys of config.toml that tell arms apart, as in marless compare",
    )
    common.metric(parser)
    parser.add_argument(
        "--at", choices=AXES, default="steps", help="what is equal where runs are compared (default: %(default)s)"
    )


def run(options: Namespace) -> int:
    """Writes the page and prints its path."""
    path: Path = options.out
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise UserError(f"-o {path}: {why}; name a file such as report.html")
    body = _page(options.runs or [LATEST], options.by, options.at, options.metric)
    try:
        replace(path, body.encode())
    except OSError as error:
        raise UserError(f"-o {path} cannot be written: {error.strerror}") from error
    say(str(path))
    return FINISHED


def _page(texts: Sequence[str], by: Sequence[str], at: Axis, metric: str) -> str:
    folders = folders_of(texts)
    if len(folders) == 1:
        return run_page(facts.read(folders[0]), written_by())
    collected = collect(texts, metric)
    arms, without = arms_of(collected.runs, by)
    by_name = {folder.name: folder for folder in folders}
    kept = (by_name[each.name] for arm in arms for each in arm.every_run)
    return comparison_page(
        Compared(
            comparison=compare(arms, at, metric),
            arms=arms,
            curves={axis: curves(arms, axis) for axis in AXES},
            facts=[facts.read(folder) for folder in islice(kept, MOST_SECTIONS)],
            left_out=collected.left_out | without,
        ),
        written_by(),
    )
