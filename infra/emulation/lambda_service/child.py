"""The process of one execution environment: awslambdaric, which dies with the emulated account.

Started as ``python -P child.py LIFELINE HANDLER``, LIFELINE being a pipe's descriptor. It imports nothing of this
project: what `infra` is in here is for the function's own code to say.
"""

import os
import runpy
import sys
from pathlib import Path

_LIFELINE = Path(__file__).resolve().parents[2] / "local" / "lifeline.py"


def main() -> None:
    lifeline, handler = int(sys.argv[1]), sys.argv[2]
    os.set_inheritable(lifeline, False)
    runpy.run_path(str(_LIFELINE))["end_with"](lifeline)
    sys.argv = ["awslambdaric", handler]
    runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
