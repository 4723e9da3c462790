"""marless report --timeline: show when functions of runs worked, as a page or as a trace."""

from argparse import Namespace

from marless.coordinator.drive.attempt_record import AttemptRecord
from marless.coordinator.errors import FINISHED, UserError
from marless.output import note, say
from marless.page import timeline_page
from marless.reports.atomic_files import write_for_user
from marless.reports.attempts import read
from marless.runs.folder import ATTEMPTS, TIMELINE, RunFolder
from marless.runs.run_store import LATEST, RUNS
from marless.views import timeline
from marless.views.timeline_strips import strips


def draw(options: Namespace) -> int:
    """Draw the runs on standard error, write the file and print its path."""
    folders = [RUNS.find(text) for text in dict.fromkeys(options.runs or [LATEST])]
    if options.trace and len(folders) > 1:
        raise UserError("--trace takes one run; use --timeline for a page with all of them")
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
    if not (records := read(folder.path / ATTEMPTS)):
        raise UserError(f"{folder.name} has no {ATTEMPTS}: only attempts of runs that a process drives are recorded")
    # Not the evaluations that end a run, which are longer than many rounds.
    last = max((record.round for record in records if record.work.startswith("sample/")), default=0)
    recent = [record for record in records if last - count < record.round <= last] or records
    return f"{folder.name}, rounds {min(record.round for record in recent) + 1} to {last + 1}", recent
