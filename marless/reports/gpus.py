"""The GPUs of this machine, as torch sees them and as a run's identity names them.

A separate process lists them, because a process that has initialised CUDA cannot fork processes that use it. Also, this
process may do without torch.
"""

import os
import subprocess
import sys
from functools import cache

from marless.functions.encoding import JsonDecoder, Undecodable
from marless.functions.kernel_variables import CUBLAS_WORKSPACE, CUBLAS_WORKSPACE_DEFAULT

# Both take seconds where the driver starts up.
_MOST_S = 120.0
_NAMES = (
    "import json, torch;"
    "print(json.dumps([torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]))"
)
_DRIVER = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
_decoder = JsonDecoder[list[str]](list[str])


@cache
def names() -> tuple[str, ...]:
    """Return the GPUs that torch sees, first the GPU of runs. Empty if torch or CUDA is missing."""
    try:
        return tuple(_decoder.decode(_answer((sys.executable, "-c", _NAMES)).encode()))
    except Undecodable:
        return ()


def identity() -> str | None:
    """Return the origins of a run's bytes on the first GPU: its name, its driver and cuBLAS's workspace, or None."""
    if not names():
        return None
    workspace = os.environ.get(CUBLAS_WORKSPACE, CUBLAS_WORKSPACE_DEFAULT)
    return f"{names()[0]}, driver {_driver()}, {CUBLAS_WORKSPACE}={workspace}"


@cache
def _driver() -> str:
    lines = _answer(_DRIVER).split()
    return lines[0] if lines else "unknown"


def _answer(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=_MOST_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
