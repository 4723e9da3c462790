"""marless report: write one HTML page about a run, or about many compared runs, or their timeline."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.cli import arguments as common
from marless.cli.commands.results.timeline import draw
from marless.coordinator.errors import FINISHED
from marless.output import say
from marless.page.report_page import write_report
from marless.runs.folder import TIMELINE
from marless.runs.run_store import LATEST

EXAMPLES = """examples:
  marless report                                 the latest run
  marless report my_run --out my_run.html
  marless report my_study --by algorithm.name    all runs of a study, compared
  marless report --timeline before after         three rounds of two runs, with seconds of the same length
  marless report my_run --trace trace.json       for chrome://tracing and ui.perfetto.dev

docs/how-to/report.md explains the page."""
_PAGE = Path("report.html")


def arguments(parser: ArgumentParser) -> None:
    """What `marless report` takes."""
    parser.add_argument(
        "runs", nargs="*", metavar="RUN_OR_STUDY", help=f"runs, studies and other folders of runs (default: {LATEST})"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=f"the page (default: {_PAGE}, or {TIMELINE} in the folder of the first run)",
    )
    parser.add_argument("--timeline", action="store_true", help="draw when functions worked, in place of the report")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write that as a trace for Chrome and Perfetto")
    parser.add_argument(
        "--rounds", type=common.count, default=3, metavar="N", help="the last rounds to draw (default: %(default)s)"
    )
    common.compared(parser)


def run(options: Namespace) -> int:
    """Writes the page and prints its path."""
    if options.timeline or options.trace:
        return draw(options)
    path = options.out or _PAGE
    write_report(options.runs or [LATEST], path, options.by, options.at, options.metric)
    say(str(path))
    return FINISHED
