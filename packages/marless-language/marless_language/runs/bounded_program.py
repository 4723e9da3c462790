"""A module that runs as a separate program, within bounds of time and memory. It ends when its starter ends."""

import os
import runpy
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from marless.infra.local.own_process import expendable, limit_memory
from marless.infra.local.processes.import_folders import add_last_folders, last_folders
from marless.infra.local.processes.lifeline import end_with


class TookTooLong(Exception):
    """The program was ended at its bound of time."""


@dataclass(frozen=True)
class ProgramLimits:
    """`memory_mb` bounds private memory, where the system has such a limit."""

    seconds: float
    memory_mb: int


def run(module: str, body: bytes, bounds: ProgramLimits) -> tuple[int, str]:
    """The exit code, and all lines on standard error, of ``python -m module`` with `body` on its standard input.

    The program and its children end with this call, also where an exception or a kill -9 of this process ends it.
    Raises `TookTooLong`, and `OSError` where it cannot be started.
    """
    far, lifeline = os.pipe()
    try:
        command = (sys.executable, "-P", "-m", __name__, str(far), str(bounds.memory_mb), module)
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(far,),
            start_new_session=True,
            env={**os.environ, **last_folders([*sys.path, str(Path.cwd())])},
        ) as child:
            try:
                _, errors = child.communicate(body, timeout=bounds.seconds)
            except subprocess.TimeoutExpired as error:
                raise TookTooLong from error
            finally:
                _end(child)
    finally:
        os.close(lifeline)  # children that the program left behind end here
        os.close(far)
    return child.returncode, errors.decode("utf-8", "replace")


def _end(child: "subprocess.Popen[bytes]") -> None:
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _main() -> None:
    lifeline, memory_mb, module = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.set_inheritable(lifeline, False)
    end_with(lifeline)
    add_last_folders()
    expendable()
    limit_memory(memory_mb)
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
