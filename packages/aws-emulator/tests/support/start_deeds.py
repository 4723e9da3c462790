"""A handler with a module that imports too slowly, the first time or always, or holds too much memory."""

import os
import time
from pathlib import Path

_HELD = bytearray(int(os.environ.get("LARGE_MIB", "0")) << 20)
if "SLOW_MARK" in os.environ:
    _before = Path(os.environ["SLOW_MARK"])
    if os.environ.get("SLOW_ALWAYS") or not _before.exists():
        _before.touch()
        print("slow")
        time.sleep(600)


def handler(event, context):
    return "awake"
