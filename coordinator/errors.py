"""Exit codes, and how a command ends: one line instead of a traceback."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

from marless.functions.system_errors import ADVICE, explain
from marless.functions.text.redaction import redact

# A command that a signal ended exits with 128 plus the signal's number, like in shells.
FINISHED, UNFINISHED, USER_ERROR, INTERNAL = 0, 1, 2, 70


class UserError(Exception):
    """The command cannot be carried out as given. The message is one line that tells the remedy."""


@dataclass(frozen=True)
class Ending:
    """The end of a command that drove a run.

    `code` is the exit code and `line` goes to standard error, '' when all went well. `keeps_folder` is False when the
    run never got far enough to leave a folder worth keeping. A command prints `result` on standard output.
    """

    code: int
    line: str
    keeps_folder: bool = True
    result: str = ""


def one_line(error: BaseException) -> str:
    """The error's text without line breaks and secrets."""
    text = _system_text(error) if isinstance(error, OSError) and error.errno else str(error)
    return redact(" ".join(redact(text).split()))


def of_the_system(error: BaseException) -> bool:
    """Return whether the user can correct the system's error: it is about a file, a full disk or a limit."""
    return isinstance(error, OSError) and (error.filename is not None or error.errno in ADVICE)


def broken_path(path: Path) -> str:
    """Return the problem of a path or a folder above it (a link to nothing, or a file), or ''."""
    for part in (path, *path.parents):
        if part.is_symlink() and not part.exists():
            return f"{part} is a link to {part.readlink()}, which is not there"
    existing = next((part for part in (path, *path.parents) if part.exists()), path)
    return f"{existing} is a file, not a folder" if existing.is_file() else ""


def _system_text(error: OSError) -> str:
    reason = explain(error, "")
    if error.filename is None:
        return reason
    path = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
    if path and error.errno in (errno.EEXIST, errno.ENOENT, errno.ENOTDIR) and (problem := broken_path(path)):
        return problem
    return f"{path or error.filename}: {reason}"
