"""The process of one execution environment: awslambdaric, which ends with the emulated account.

Started as ``python -P environment_process.py LIFELINE HANDLER FOLDER...``, where LIFELINE is a pipe's descriptor. It
imports nothing from this package: only the function's own folders are on the path. The folders named here come last,
so that no file of theirs hides a module of Python's library.
"""

import os
import runpy
import sys
from pathlib import Path

_LIFELINE = Path(__file__).resolve().with_name("lifeline.py")


def main() -> None:
    lifeline, handler = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(lifeline, False)
    runpy.run_path(str(_LIFELINE))["end_with"](lifeline)
    sys.path.extend(sys.argv[3:])
    sys.argv = ["awslambdaric", handler]
    runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
