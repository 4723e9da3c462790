"""Commands that listen and workers that dial in, each in a separate process."""

import os
import socket
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parents[4] / "tests/support"
MODULES = [SUPPORT.parents[1], *(SUPPORT / name for name in ("", "environments", "resources"))]


def head_at(address):
    """Arguments of a profile, written to this folder, that names the head of a cluster."""
    Path("head.toml").write_text(f'head = "{address}"')
    return ("--machines", "head.toml")


def free_port():
    """Return a port without a listener."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def command(folder, *argv, paths=MODULES, before=(), **variables):
    """`marless` in a process in this folder, with these words in front of it. The token is in a file of this folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "XDG_CONFIG_HOME": str(folder / "config"),
        **variables,
    }
    return subprocess.Popen(
        [*before, sys.executable, "-m", "marless.cli.app", *argv],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process, code=0, limit_s=200):
    """Return its output. It must end with this exit code."""
    try:
        output, _ = process.communicate(timeout=limit_s)
    finally:
        process.kill()
    assert process.returncode == code, output
    return output
