"""``python -m scripts.streams [COMMAND ...]``: the behaviour of commands with broken streams, as a markdown table.

A row is a way to break standard input, output or error, a column is a command, a cell its exit code. The code is 0, or
2 if text was lost that is the command's result. In other cases `broken` names the fault.
"""

import fcntl
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SMALL = [
    "task.name=toy/signal",
    "algorithm.hidden=[8]",
    "actors.num_envs=8",
    "evaluation.every=1",
    "evaluation.episodes=4",
    "evaluation.final_episodes=4",
    "stop.rounds=3",
]
COMMANDS: dict[str, list[str]] = {
    "train": ["train", *_SMALL, "--run", "new", "--workers", "1"],
    "train --json": ["train", *_SMALL, "--run", "new", "--workers", "1", "--json"],
    "resume": ["resume", "old", "stop.rounds=4", "--workers", "1"],
    "study": ["study", "small.toml", "--workers", "1"],
    "evaluate": ["evaluate", "old", "--episodes", "4", "--workers", "1"],
    "runs": ["runs"],
    "status --json": ["status", "old", "--json"],
    "config": ["config"],
}
# Their results are files, which they leave even if their messages are lost.
_DRIVE = {
    "train": ["runs/new"],
    "train --json": ["runs/new"],
    "resume": ["runs/old"],
    "study": ["studies/small/runs/base-s1", "studies/small/runs/base-s2"],
}
_STUDY = """seeds = "1-2"
[base]
task.name = "toy/signal"
algorithm.hidden = [8]
actors.num_envs = 8
evaluation.episodes = 4
evaluation.final_episodes = 4
stop.rounds = 2
"""
_MARLESS = [sys.executable, "-m", "marless.cli.app"]
_ROOT = Path(__file__).resolve().parents[1]
FULL = "No space left on device"


@dataclass(frozen=True)
class Outcome:
    """The end of a command: its exit code, the bytes in each stream, and whether it left its files."""

    code: int
    out: bytes
    err: bytes
    left: bool


Break = Callable[[list[str], Path, dict[str, str]], tuple[int, bytes, bytes]]


def _piped(
    command: list[str], folder: Path, environment: dict[str, str], shell: str = '"$@"'
) -> tuple[int, bytes, bytes]:
    """The command with a redirection of the shell."""
    done = subprocess.run(
        ["bash", "-c", shell, "bash", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def _redirected(shell: str, **variables: str) -> Break:
    return lambda command, folder, environment: _piped(command, folder, {**environment, **variables}, shell)


def _lost_terminal(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """A terminal of standard output that goes as soon as something was written to it, without a signal."""
    near, far = pty.openpty()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=far, stderr=subprocess.PIPE) as process:
        os.close(far)
        out = os.read(near, 1)
        os.close(near)
        assert process.stderr is not None
        err = process.stderr.read()
    return process.returncode, out, err


def _impatient(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, bytes, bytes]:
    """Use a pipe of standard output that does not wait for its slow reader."""
    near, far = os.pipe()
    with suppress(OSError, AttributeError):
        fcntl.fcntl(far, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(far, False)
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=far, stderr=subprocess.PIPE) as process:
        os.close(far)
        out, heard = bytearray(), bytearray()
        assert process.stderr is not None
        listener = threading.Thread(target=lambda error=process.stderr: heard.extend(error.read()))
        listener.start()
        time.sleep(0.5)
        while chunk := os.read(near, 512):
            out += chunk
            time.sleep(0.001)
        listener.join()
    os.close(near)
    return process.returncode, bytes(out), bytes(heard)


BREAKS: dict[str, Break] = {
    "the reader of output left (`\\| head`)": _redirected('set -o pipefail; "$@" | head -c 0'),
    "the reader of both left (`2>&1 \\| head`)": _redirected('set -o pipefail; "$@" 2>&1 | head -c 0'),
    "output on a full disk": _redirected('"$@" > /dev/full'),
    "error on a full disk": _redirected('"$@" 2> /dev/full'),
    "output and error closed (`>&- 2>&-`)": _redirected('"$@" >&- 2>&-'),
    "input closed (`<&-`)": _redirected('"$@" <&-'),
    "ASCII": _redirected('"$@"', PYTHONIOENCODING="ascii"),
    "Latin-1": _redirected('"$@"', PYTHONIOENCODING="latin-1"),
    "the terminal went": _lost_terminal,
    "a pipe that does not wait (`O_NONBLOCK`)": _impatient,
}


def outcome(way: str, name: str, prepared: Path) -> Outcome:
    """Calls the command in a copy of a folder that `prepare` has filled."""
    with tempfile.TemporaryDirectory() as copy:
        folder = Path(copy) / "here"
        shutil.copytree(prepared, folder, symlinks=True)
        return _outcome(way, name, folder)


def _outcome(way: str, name: str, folder: Path) -> Outcome:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "TERM": "xterm"}
    environment.pop("PYTHONIOENCODING", None)
    code, out, err = BREAKS[way]([*_MARLESS, *COMMANDS[name]], folder, environment)
    left = all((folder / path / "policies.safetensors").is_file() for path in _DRIVE.get(name, []))
    return Outcome(code, out, err, left)


def prepare(folder: Path) -> None:
    """A finished run `old`, and the file of a study."""
    (folder / "small.toml").write_text(_STUDY, encoding="utf-8")
    subprocess.run(
        [*_MARLESS, "train", *_SMALL, "--run", "old", "--workers", "1"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        check=True,
        capture_output=True,
    )


def broken(way: str, name: str, found: Outcome) -> str:
    """Return the fault of a command, or '' if it behaves correctly."""
    lost = way == "output on a full disk"
    expected = 2 if lost and name not in _DRIVE else 0
    if b"internal error" in found.err or b"Traceback" in found.err or b"Exception ignored" in found.err:
        return found.err.decode(errors="replace").splitlines()[0]
    if found.code != expected:
        return f"code {found.code} instead of {expected}"
    if not found.left:
        return "no policies"
    if lost and f"standard output cannot be written: {FULL}".encode() not in found.err:
        return "nothing said of what was lost"
    if way in ("ASCII",) and not found.out.isascii():
        return "output is not ASCII"
    if "NONBLOCK" in way and name == "config" and b"[task]" not in found.out:
        return "output was cut"
    return ""


def main(names: Sequence[str]) -> int:
    """Print the table. The exit code says whether a cell is broken."""
    chosen = [name for name in COMMANDS if not names or name in names]
    with tempfile.TemporaryDirectory() as prepared:
        prepare(Path(prepared))
        return _table(Path(prepared), chosen)


def _table(prepared: Path, chosen: Sequence[str]) -> int:
    wrong = 0
    print("| | " + " | ".join(f"`{name}`" for name in chosen) + " |")
    print("|---" * (len(chosen) + 1) + "|")
    for way in BREAKS:
        cells = []
        for name in chosen:
            found = outcome(way, name, prepared)
            problem = broken(way, name, found)
            wrong += bool(problem)
            cells.append(f"**{found.code}: {problem}**" if problem else f"{found.code}")
        print(f"| {way} | " + " | ".join(cells) + " |", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
