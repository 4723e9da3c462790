"""Functions of resources with one question, good and bad. Counting functions append a line to the file of CALLS."""

import hashlib
import os
import random
import time
from pathlib import Path

from marless.functions.resources.port import RESOURCES


def length(question):
    return b"%d" % len(question)


def cores(question, *, cores):
    return b"%d" % cores


def counted(question):
    _count(question)
    return length(question)


def at_random(question):
    _count(question)
    return b"%d" % random.Random().getrandbits(30)


def slow(question):
    _count(question)
    time.sleep(float(question))
    return question


def grade(question):
    """A digit that depends on every byte of the question."""
    _count(question)
    return b"%d" % (sum(question) % 10)


def no_grade(question):
    return b"well done"


def raises(question):
    raise ValueError("no\nidea")


def raises_twice(question):
    _count(question)
    if len(Path(os.environ["CALLS"]).read_text().splitlines()) < 3:
        raise ValueError("not yet")
    return b"now"


def fails_at_first(question):
    """One question in seven is answered when it is asked again."""
    _count(question)
    asked = Path(os.environ["CALLS"]).read_text().splitlines().count(repr(question[:80]))
    if sum(question) % 7 == 0 and asked == 1:
        raise ValueError("not yet")
    return b"%d" % (sum(question) % 10)


def hangs(question):
    time.sleep(3600)


def dies(question):
    os._exit(7)


def text(question):
    return "an answer"


def gigabyte(question):
    return bytes(1 << 30)


def asks(question):
    return RESOURCES.call("judge", [question])[0]


def lets_others_run(question):
    """The digit of `grade`, after a moment for other threads."""
    time.sleep(1e-3)
    return b"%d" % (sum(question) % 10)


def lets_others_run_too(question):
    time.sleep(1e-3)
    return b"%d" % (sum(question) % 10 - 1000)


def _count(question):
    with Path(os.environ["CALLS"]).open("a") as file:
        file.write(f"{question[:80]!r}\n")


def strict(question):
    """A grade that depends on every byte of the question, after a moment."""
    _moment(question)
    return b"%d" % (sum(question) % 10)


def moody(question):
    _moment(question)
    return b"%d" % random.Random().randrange(1000)


def _moment(question):
    with Path(os.environ["CALLS"]).open("a", encoding="utf-8") as file:
        file.write(f"{hashlib.sha256(question).hexdigest()}\n")
    time.sleep(0.02)
