"""marless report: writes one page in HTML about a run, or about many that are compared."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED
from marless.output import say
from marless.page.report_page import write_report
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
    common.compared(parser)


def run(options: Namespace) -> int:
    """Writes the page and prints its path."""
    write_report(options.runs or [LATEST], options.out, options.by, options.at, options.metric)
    say(str(options.out))
    return FINISHED
