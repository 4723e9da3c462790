"""marless runs remove: deletes runs, studies and ablations, after a question."""

from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path

from marless.cli.console import confirm
from marless.comparison.run_selection import PLACES, collection_of
from marless.coordinator.errors import FINISHED, UserError
from marless.output import say
from marless.program import program_name
from marless.reports.text import size
from marless.runs.folder import RunFolder
from marless.runs.run_store import RUNS
from marless.runs.upkeep.disk_space import size_of
from marless.runs.upkeep.removal import discard, leftovers, remove

EXAMPLES = """examples:
  marless runs remove first second     says how large they are, and asks
  marless runs remove studies/lr --yes  a study with all its runs
  marless runs remove                  what commands that were cut short have left

A run that a process here trains is refused. One in the cloud goes on there: `marless stop` it first. What the cloud
holds of a run stays there: see `marless cloud remove`."""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("runs", nargs="*", metavar="RUN_OR_STUDY", help="runs, studies or ablations")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run(options: Namespace) -> int:
    """Removes all that is named, or nothing."""
    named_folders = [folder for text in options.runs if (folder := _folder(text))]
    folders = {folder.path.resolve(): folder for folder in named_folders}.values()
    remnants = [path for text in options.runs for path in _remnants_of(text)]
    remnants += [path for parent in PLACES for path in leftovers(parent) if path not in remnants]
    if not folders and not remnants:
        raise UserError(f"name a run or a study to remove; `{program_name()} runs` lists them")
    with ExitStack() as locks:
        for folder in folders:
            locks.enter_context(folder.driving())
            _require_idle(folder)
        sizes = {folder: size_of(folder.path) for folder in folders}
        if folders:
            names = ", ".join(f"{folder.name} ({size(count)})" for folder, count in sizes.items())
            confirm(f"remove {names}?", options.yes)
        for folder in folders:  # a run of a study may have begun while the question stood
            _require_idle(folder)
        for folder, count in sizes.items():
            remove(folder.path)
            say(f"removed {folder.name}, {size(count)}")
    for path in remnants:
        discard(path)
        say(f"removed {path}, left by a command that was cut short")
    RUNS.repair_latest()
    return FINISHED


def _folder(text: str) -> RunFolder | None:
    path = collection_of(text)
    try:
        folder = RunFolder(path) if path else RUNS.find(text)
    except UserError:
        if _remnants_of(text):
            return None
        raise
    if folder.path.is_symlink():
        raise UserError(f"{folder.path} is a link to {folder.path.readlink()}; remove it by hand")
    return folder


def _remnants_of(text: str) -> list[Path]:
    path = Path(text)
    return leftovers(path.parent, path.name) if path.name and path.parent not in PLACES else []


def _require_idle(folder: RunFolder) -> None:
    runs: Path = folder.path / "runs"
    busy = [path.name for path in (runs.iterdir() if runs.is_dir() else ()) if RunFolder(path).driven()]
    if busy:
        raise UserError(f"{busy[0]} of {folder.name} is being trained by another process; stop it first")
