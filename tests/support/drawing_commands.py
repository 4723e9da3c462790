"""Return whether commands that tests start find matplotlib: drawing takes longer than most runs of the tests last."""

import os
from pathlib import Path

_WITHOUT = str(Path(__file__).parent / "without_pictures")


def without_pictures():
    os.environ["PYTHONPATH"] = os.pathsep.join([_WITHOUT, *_others()])


def with_pictures():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(_others())}


def _others():
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", _WITHOUT)]
