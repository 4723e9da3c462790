"""marless timeline: when which function of a run was at work, as a page or as a trace."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from coordinator.errors import FINISHED, UserError
from marless.cli import arguments as common
from marless.output import say
from marless.reports.atomic_files import write_for_user
from marless.reports.attempts import read
from marless.runs.folder import ATTEMPTS, TIMELINE, RunFolder
from marless.views import timeline

EXAMPLES = """examples:
  marless timeline                       the last three rounds of the latest run
  marless timeline my_run --rounds 20
  marless timeline my_run --trace trace.json     for chrome://tracing and ui.perfetto.dev"""


def arguments(parser: ArgumentParser) -> None:
    """What `marless timeline` takes."""
    common.run(parser)
    parser.add_argument(
        "--rounds", type=common.count, default=3, metavar="N", help="the last rounds to draw (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"the page (default: {TIMELINE} in the run's folder)")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for Chrome and Perfetto, and no page")


def run(options: Namespace) -> int:
    """Writes the file and prints its path."""
    folder = RunFolder.find(options.run)
    records = read(folder.path / ATTEMPTS)
    if not records:
        raise UserError(f"{folder.name} has no {ATTEMPTS}: only attempts of runs that a process drives are recorded")
    # Not the evaluations that end a run, which are longer than many rounds.
    last = max((record.round for record in records if record.work.startswith("sample/")), default=0)
    recent = [record for record in records if last - options.rounds < record.round <= last] or records
    path = options.trace or options.out or folder.path / TIMELINE
    title = f"{folder.name}, rounds {min(record.round for record in recent)} to {last}"
    write_for_user(path, timeline.chrome_trace(recent) if options.trace else timeline.page(title, recent).encode())
    say(str(path))
    return FINISHED
