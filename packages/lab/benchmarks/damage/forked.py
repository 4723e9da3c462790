"""Commands of `marless` as forks of a process that has imported them: a hundredth of the time of a new one."""

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from marless.cli import app

MOST_S, MOST_MB = 60.0, 500.0
_LINES = 3
_CODES = (0, 1, 2)


@dataclass(frozen=True)
class Outcome:
    """The end of a command. `code` is None when it was ended after `MOST_S` seconds."""

    code: int | None
    out: str
    err: str
    peak_mb: float
    seconds: float

    @property
    def fault(self) -> str:
        """The fault of the ending, independent of the output, or ''."""
        if self.code is None:
            return f"no end within {MOST_S:g} s"
        if self.code not in _CODES or "Traceback" in self.out + self.err or "internal error" in self.err:
            return f"exit {self.code}: {self.err.strip()[-300:]}"
        if self.peak_mb > MOST_MB:
            return f"{self.peak_mb:,.0f} MB"
        lines = [line for line in self.err.splitlines() if line.strip()]
        return f"{len(lines)} lines of errors" if self.code == 2 and len(lines) > _LINES else ""


def preload(commands: Iterable[str]) -> None:
    """Import the modules of commands, once for all forks."""
    for name in commands:
        app.module_of(name.partition(" --")[0])
    import marless.functions.evaluator.handler
    import marless.functions.learner.handler  # noqa: F401


def ask(folder: Path, argv: Sequence[str], until: float = MOST_S) -> Outcome:
    """The outcome of a command in the folder."""
    return outcome(folder, lambda: command(argv), until)


def command(argv: Sequence[str]) -> int:
    """Runs a command in this process. Returns its exit code."""
    sys.argv = ["marless", *argv]
    return app.main(list(argv))


def outcome(folder: Path, work: Callable[[], int], until: float = MOST_S) -> Outcome:
    """Return the end of `work`, which returns an exit code, in a fork in the folder."""
    out, err = folder / ".out", folder / ".err"
    began = time.monotonic()
    pid = start(folder, work)
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        seconds = time.monotonic() - began
        if done or seconds > until:
            break
        time.sleep(0.005)
    if not done:
        os.killpg(pid, signal.SIGKILL)
        os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status) if done else None
    said, error = (path.read_bytes().decode(errors="replace") if path.exists() else "" for path in (out, err))
    return Outcome(code, said, error, used.ru_maxrss / 1024, seconds)


def start(folder: Path, work: Callable[[], int]) -> int:
    """Return the process id of a fork that does `work` in the folder, and leads a separate group."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        os.chdir(folder)
        for descriptor, name in ((0, os.devnull), (1, ".out"), (2, ".err")):
            flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(name, flags, 0o600), descriptor)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
