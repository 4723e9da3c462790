"""A slow resource that notes the times of its work by question."""

import hashlib
import json
import os
import time
from pathlib import Path

NOTES = "slow_judge.jsonl"


def grade(question):
    began = time.monotonic()
    time.sleep(0.06)
    digest = hashlib.sha256(question).hexdigest()
    # Lines of one write each, next to this module, which outlives its processes.
    with Path(__file__).with_name(NOTES).open("a") as notes:
        notes.write(json.dumps([digest, began, time.monotonic()]) + "\n")
    return str(int(digest[:2], 16) / 256).encode()


def ponder(question):
    time.sleep(0.2)
    return grade(question)


def raises(question):
    raise ValueError("too hard")


def dies(question):
    os._exit(3)


def hangs(question):
    time.sleep(60)


def mumbles(question):
    return "no bytes"


def overflows(question):
    return bytes(7 << 20)


def tells_cores(question, cores):
    return str(cores).encode()


def asks_another(question):
    from marless.functions.resources.port import RESOURCES

    return RESOURCES.call("judge", [question])[0]
