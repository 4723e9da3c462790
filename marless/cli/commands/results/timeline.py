"""marless timeline: shows a timeline of a run's functions, as a page or as a trace, next to other runs."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from marless.cli import arguments as common
from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.coordinator.errors import FINISHED, UserError
from marless.output import note, say
from marless.page import timeline_page
from marless.reports.atomic_files import write_for_user
from marless.reports.attempts import read
from marless.runs.folder import ATTEMPTS, LATEST, TIMELINE, RunFolder
from marless.views import timeline
from marless.views.timeline_strips import strips

EXAMPLES = """examples:
  marless timeline                       the last three rounds of the latest run
  marless timeline my_run --rounds 20
  marless timeline before after          two runs, with seconds of the same length
  marless timeline my_run --trace trace.json     for chrome://tracing and ui.perfetto.dev"""


def arguments(parser: ArgumentParser) -> None:
    """What `marless timeline` takes."""
    text = f"runs under runs/, or paths of their folders (default: {LATEST}, the newest)"
    parser.add_argument("runs", metavar="RUN", nargs="*", default=[LATEST], help=text)
    parser.add_argument(
        "--rounds", type=common.count, default=3, metavar="N", help="the last rounds to draw (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=f"the page (default: {TIMELINE} in the folder of the first run)"
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="write a trace for Chrome and Perfetto, in place of the page"
    )


def run(options: Namespace) -> int:
    """Draws the runs on standard error, writes the file and prints its path."""
    folders = [RunFolder.find(text) for text in dict.fromkeys(options.runs)]
    if options.trace and len(folders) > 1:
        raise UserError("--trace takes one run; without it the page has all of them")
    drawn = dict(map(_last_rounds, folders, [options.rounds] * len(folders)))
    longest_s = max(map(timeline.length_s, drawn.values()))
    note(*(line for heading, records in drawn.items() for line in strips(heading, records, longest_s)))
    path = options.trace or options.out or folders[0].path / TIMELINE
    write_for_user(
        path,
        timeline.chrome_trace(*drawn.values()) if options.trace else timeline_page.page("Timeline", drawn).encode(),
    )
    say(str(path))
    return FINISHED


def _last_rounds(folder: RunFolder, count: int) -> tuple[str, list[AttemptRecord]]:
    """What the last rounds of a run are, numbered from 1 as in its metrics, and their attempts."""
    records = read(folder.path / ATTEMPTS)
    if not records:
        raise UserError(f"{folder.name} has no {ATTEMPTS}: only attempts of runs that a process drives are recorded")
    # Not the evaluations that end a run, which are longer than many rounds.
    last = max((record.round for record in records if record.work.startswith("sample/")), default=0)
    recent = [record for record in records if last - count < record.round <= last] or records
    return f"{folder.name}, rounds {min(record.round for record in recent) + 1} to {last + 1}", recent
