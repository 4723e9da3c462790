"""Runs untrusted code: a program in Python, or a command, in bubblewrap (a program of Linux, `bwrap`).

Inside there are no network, environment variables or other processes. The user's files are hidden, except files that a
setting names. All files are read-only except in a private /tmp, which is deleted afterwards. It has one process, and a
filter of system calls. Time of the processor, memory and the size of a file are bounded by setrlimit(2).
"""

import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Literal, NamedTuple

from marless.functions.resources.serving.kinds.kind import NoAnswer, Start
from marless.functions.resources.serving.seccomp_filter import MACHINES, sandbox_filter
from marless.functions.system_errors import signal_name

Kind = Literal["none", "bubblewrap"]

# A file, /tmp, and a program's output: the largest answer of a resource.
FILE_BYTES = 1 << 24
# Seconds of the processor of a command that is kept warm over many questions. Each has a time-out.
_UNBOUNDED = 1 << 30
_INSTALL = "apt-get install bubblewrap, or the package of that name of another Linux"

# As `-I`, but for the environment, which is empty: so sets of strings have one order in every process.
_PYTHON = ("-P", "-s", "-S", "-B", "-c")
_ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/games", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
# Threads cost memory of the kernel, which counts for no process.
_THREADS = 4096
# Of a program's errors so much goes into the log.
ERROR_BYTES = 1 << 16
# Sets the limits, and becomes the command, or the program that stands before its input on the standard input.
_BOOT = """
import os, resource, sys
seconds, memory, file_bytes, threads, size, *command = sys.argv[1:]
limits = {"CPU": seconds, "AS": memory, "FSIZE": file_bytes, "CORE": 0, "NOFILE": 256, "NPROC": threads}
for name, most in limits.items():
    try:
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (int(most), int(most)))
    except (ValueError, OSError):
        pass
if command:
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error.strerror}; sandbox_paths names interpreters and libraries")
program = b""
while len(program) < int(size):
    program += os.read(0, int(size) - len(program))
sys.argv[:] = ["program"]
exec(compile(program, "program", "exec"), {"__name__": "__main__"})
"""


class SandboxError(NoAnswer):
    """There is no sandbox on this machine. The message gives the reason and the remedy."""


class Printed(NamedTuple):
    """A program's standard output, and the reason for a failure, '' without one."""

    output: bytes
    error: str


@dataclass(frozen=True)
class Sandbox:
    """Runs programs, each in a separate process. Kind `none` bounds time, memory and files, and hides nothing."""

    kind: Kind
    timeout_s: float
    memory_mb: int
    paths: Sequence[str] = ()
    """Further files and folders that a program may read."""

    def run(self, program: str, typed: bytes = b"") -> Printed:
        """Runs a program in Python's own library, `typed` being its standard input.

        The result contains every effect of the program. Raises `SandboxError` where there is no sandbox.
        """
        require(self.kind, self.paths)
        source = program.encode("utf-8", "surrogatepass")
        boot = _boot(self.memory_mb, int(self.timeout_s) + 1, len(source))
        with (
            tempfile.TemporaryFile() as questions,
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
        ):
            questions.write(source + typed)
            questions.seek(0)
            with _started(self, boot, questions, output, errors) as process:
                error = _end_of(process, self.timeout_s)
            output.seek(0)
            errors.seek(0)
            return Printed(output.read(FILE_BYTES), error and _with_last_line(error, errors.read(FILE_BYTES)))


@contextmanager
def isolated(command: Sequence[str], memory_mb: int, paths: Sequence[str] = ()) -> Iterator[Start]:
    """Yield the start of `command` inside the sandbox. It sees its own file and the files of `paths`.

    Raises `SandboxError`.
    """
    require("bubblewrap", paths)
    if (link := shutil.which(command[0])) is None:
        raise SandboxError(f"command {command[0]!r} cannot be started: it is not installed")
    path = str(Path(link).resolve())
    boot = [*_boot(memory_mb, _UNBOUNDED, 0), path, *command[1:]]
    with _filter_file() as rules, _copied_errors() as errors:
        yield Start([*bubblewrap(rules.fileno(), [path, *paths]), *boot], _ENVIRONMENT, (rules.fileno(),), errors)


def require(kind: Kind, paths: Sequence[str] = ()) -> None:
    """Raises `SandboxError` unless this machine has the programs that `kind` needs, and these files and folders."""
    if kind == "none":
        return
    if shutil.which("bwrap") is None:
        raise SandboxError(f"bubblewrap (bwrap) is not installed, or not on the PATH: {_INSTALL}")
    if platform.machine() not in MACHINES:
        raise SandboxError(f"processors of type {platform.machine()} are not supported, {' and '.join(MACHINES)} are")
    for path in paths:
        if not Path(path).exists():
            raise SandboxError(f"sandbox_paths names {path!r}, and there is no such file or folder")
    if problem := _start_problem():
        raise SandboxError(problem)


def bubblewrap(rules: int, paths: Sequence[str]) -> list[str]:
    """The beginning of a command that runs in bubblewrap, `rules` being the file of the filter of system calls.

    Of this machine's files it sees programs and libraries, this Python, and `paths`. These come after the folders that
    are its own, so that they may lie below one of them.
    """
    return [
        shutil.which("bwrap") or "bwrap",
        *("--unshare-all", "--unshare-user", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox", "--clearenv"),
        *(word for name, value in _ENVIRONMENT.items() for word in ("--setenv", name, value)),
        *("--proc", "/proc", *_hidden(), "--dev", "/dev"),
        *("--size", str(FILE_BYTES), "--tmpfs", "/tmp", "--chdir", "/tmp"),
        *_visible(paths),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--seccomp", str(rules), "--"),
    ]


def _hidden() -> Iterator[str]:
    """Arguments that hide parts of /proc: the first process, which is bubblewrap and has no filter, and the user's
    keys."""
    yield from ("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")
    for path in ("/proc/keys", "/proc/key-users"):
        if Path(path).exists():
            yield from ("--ro-bind", "/dev/null", path)


def _visible(paths: Sequence[str]) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        folder = Path("/", name)
        if folder.is_symlink():
            yield from ("--symlink", str(folder.readlink()), str(folder))
        elif folder.exists():
            yield from ("--ro-bind", str(folder), str(folder))
    library = [Path(sys.base_prefix, name) for name in ("lib", "lib64")]
    for place in dict.fromkeys([_interpreter(), *map(str, library), *map(os.path.abspath, paths)]):
        if Path(place).exists() and not Path(place).is_relative_to("/usr"):
            yield from ("--ro-bind", place, place)


def _boot(memory_mb: int, seconds: int, size: int) -> list[str]:
    """A Python that sets limits, and then is a program of `size` bytes or the command that follows."""
    limits = (seconds, memory_mb << 20, FILE_BYTES, _THREADS, size)
    return [_interpreter(), *_PYTHON, _BOOT, *map(str, limits)]


def _interpreter() -> str:
    """The Python behind a virtual environment. Programs see none of the environment's packages."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(Path(sys.base_prefix, "bin", name).resolve())


@contextmanager
def _started(
    sandbox: Sandbox, boot: Sequence[str], questions: IO[bytes], output: IO[bytes], errors: IO[bytes]
) -> Iterator["subprocess.Popen[bytes]"]:
    with _filter_file() as rules, tempfile.TemporaryDirectory() as folder:
        isolation = bubblewrap(rules.fileno(), sandbox.paths) if sandbox.kind == "bubblewrap" else []
        with subprocess.Popen(
            [*isolation, *boot],
            stdin=questions,
            stdout=output,
            stderr=errors,
            cwd=folder,
            env=_ENVIRONMENT,
            pass_fds=(rules.fileno(),) if isolation else (),
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _filter_file() -> Iterator[IO[bytes]]:
    machine = MACHINES.get(platform.machine())
    with tempfile.TemporaryFile() as file:
        file.write(sandbox_filter(machine) if machine else b"")
        file.seek(0)
        yield file


@contextmanager
def _copied_errors() -> Iterator[int]:
    """A pipe to this process's errors, for a program that could change or read a file that it is handed."""
    read, write = os.pipe()
    threading.Thread(target=_copy_errors, args=(read,), daemon=True).start()
    try:
        yield write
    finally:
        os.close(write)


def _copy_errors(read: int) -> None:
    """Copies at most `ERROR_BYTES`, and discards the rest, until the last writer has closed its end."""
    left = ERROR_BYTES
    with open(read, "rb", buffering=0) as errors:
        while chunk := errors.read(ERROR_BYTES):
            with suppress(OSError):
                left -= os.write(2, chunk[:left])


def _end_of(process: "subprocess.Popen[bytes]", timeout_s: float) -> str:
    try:
        status = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return f"it ran longer than {timeout_s:g} s"
    number = -status if status < 0 else status - 128  # bubblewrap tells of signals as shells do
    if number in signal.valid_signals():
        return f"it was ended by {signal_name(number)}"
    return f"it ended with exit status {status}" if status else ""


def _with_last_line(error: str, text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return f"{error}: {lines[-1][:200]}" if lines else error


@cache
def _start_problem() -> str:
    """Return why bubblewrap does not start here, or ''. It is tried once: some systems forbid its name spaces."""
    with _filter_file() as rules:
        command = [*bubblewrap(rules.fileno(), []), *_boot(1 << 10, _UNBOUNDED, 0)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, pass_fds=(rules.fileno(),), env=_ENVIRONMENT
        )
    return _with_last_line("bubblewrap does not start here", done.stderr) if done.returncode else ""
