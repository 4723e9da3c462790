"""Python interpreters of this machine by version."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def interpreter(version: str) -> str | None:
    """Return a Python of `version` (``3.12``) or None: this one, one on PATH, or one that pyenv holds."""
    return next((candidate for candidate in _candidates(version) if _is(candidate, version)), None)


def _candidates(version: str) -> Iterator[str]:
    yield sys.executable
    yield from (str(Path(folder, f"python{version}")) for folder in os.get_exec_path())
    # pyenv's shim on PATH works only if a version is selected.
    if pyenv := shutil.which("pyenv"):
        yield str(Path(_output([pyenv, "prefix", version]), "bin", f"python{version}"))


def _is(candidate: str, version: str) -> bool:
    """Return whether the candidate starts and has the version. A name may be a shim without an interpreter."""
    return _output([candidate, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]) == version


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=30, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
