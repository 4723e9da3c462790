"""Runs cells in parallel, each as a process that trains with one worker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from coordinator.ablation.cells import Cell

_POLL_S = 0.05
# After the second signal a run exits at once; one that does not is killed, from which a resume recovers.
_PATIENCE_S = 10.0

Process = subprocess.Popen[bytes]


def drive(
    cells: Iterable[Cell],
    jobs: int,
    ready: Callable[[Cell], bool],
    begin: Callable[[Cell], Process | None],
    on_exit: Callable[[Cell, int], bool],
    stopping: Callable[[], bool],
) -> None:
    """Runs the cells in order, `jobs` at once; one that is not `ready` is skipped until it is.

    `begin` returns None for a cell that cannot run. `on_exit` gets every other cell with its exit code and returns
    whether the cell continues, ahead of all waiting ones. Once `stopping`, no run starts and running ones get a signal
    to stop. When this function exits, by an exception too, it ends the runs.
    """
    waiting, running, signalled = list(cells), dict[Cell, Process](), False
    try:
        while running or (waiting and not stopping()):
            if stopping() and not signalled:
                signalled = True
                _signal(running.values())
            while not stopping() and len(running) < jobs and (cell := next(filter(ready, waiting), None)):
                waiting.remove(cell)
                if process := begin(cell):
                    running[cell] = process
            for cell, code in [(cell, code) for cell in running if (code := running[cell].poll()) is not None]:
                del running[cell]
                if on_exit(cell, code):
                    waiting.insert(0, cell)
            time.sleep(_POLL_S)
    finally:
        _end(list(running.values()))


def spawn(arguments: Sequence[str], folder: Path, log: Path, modules: Path | None) -> Process:
    """Starts `marless` with these arguments in `folder`, its output in `log`; `modules` holds the user's tasks."""
    environment = dict(os.environ)
    if modules is not None:
        # Last, so that the user's modules shadow none of ours.
        folders = [*filter(None, [environment.get("PYTHONPATH")]), str(modules)]
        environment["PYTHONPATH"] = os.pathsep.join(folders)
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "coordinator.cli.app", *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C in the terminal is for the ablation, which passes it on
        )


def _signal(processes: Iterable[Process]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)


def _end(processes: Sequence[Process]) -> None:
    """Ends running processes: the first signal asks a run to stop in order, the second to exit at once."""
    for _ in range(2):
        _signal(process for process in processes if process.poll() is None)
        time.sleep(_POLL_S if processes else 0)
    until = time.monotonic() + _PATIENCE_S
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
