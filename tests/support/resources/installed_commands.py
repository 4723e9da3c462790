"""Marks of tests that need a command from outside Python. If it is missing, they are skipped, by its name."""

import os
import shutil

import pytest

from marless.functions.resources.serving.sandbox import SandboxError, require

# Debian keeps engines in /usr/games, which is not on the path of every account.
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/games"])
STOCKFISH = shutil.which("stockfish", path=_PATH)


def _sandbox_problem():
    try:
        require("bubblewrap")
    except SandboxError as error:
        return str(error)
    return ""


needs_bubblewrap = pytest.mark.skipif(bool(_sandbox_problem()), reason=_sandbox_problem())
needs_stockfish = pytest.mark.skipif(STOCKFISH is None, reason="there is no stockfish: apt-get install stockfish")
