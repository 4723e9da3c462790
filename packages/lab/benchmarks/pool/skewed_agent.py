"""An agent's learner, made up: it loads the agent's state unless this process has it, then works as long as told."""

import json
import time

from marless.functions.storage_port import Blobs

_held: set[str] = set()


def handle(body: bytes, blobs: Blobs) -> bytes:
    """A request is JSON: ``state`` with the reference of the agent's state, ``load_s`` and ``work_s``."""
    task = json.loads(body)
    name = task["state"][0]["sha256"]
    if name not in _held:
        time.sleep(task["load_s"])
        _held.add(name)
    time.sleep(task["work_s"])
    return b"{}"
