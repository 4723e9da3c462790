"""A handler whose module takes too long to import the first time, or every time if SLOW_ALWAYS is set."""

import os
import time
from pathlib import Path

_before = Path(os.environ["SLOW_MARK"])
if os.environ.get("SLOW_ALWAYS") or not _before.exists():
    _before.touch()
    print("slow")
    time.sleep(600)


def handler(event, context):
    return "awake"
