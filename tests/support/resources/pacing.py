"""Resources that write down when they are asked and when they answer, into the file that CALLS names."""

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import somebodys_engine  # noqa: F401  # code that is not ours: its process serves all runs nevertheless


class Note(NamedTuple):
    what: str
    when: float
    pid: int
    cores: int
    question: str


def wait(question):
    """Answers after as many seconds as the question says in its first word, or if that is `held`, after `release`."""
    _note("begin", question)
    what = question.split()[0].decode()
    if what == "held":
        _await(_released().exists)
    else:
        time.sleep(float(what))
    print("whoever reads this may be gone", flush=True)
    _note("end", question)
    return b"%d" % os.getpid()


def meet(question):
    """Answers once as many actions as the question says in its second word have run at once, and its seconds later."""
    _note("begin", question)
    seconds, count = question.split()
    _await(lambda: most_at_once(calls()) >= int(count))
    time.sleep(float(seconds))
    _note("end", question)
    return b"met"


def compute(question, *, cores):
    _note("begin", question)
    until = time.monotonic() + float(question.split()[0])
    while time.monotonic() < until:
        pass
    _note("end", question)
    return b"%d" % cores


def divide(question, *, cores):
    """Takes as many seconds as the question says on one core. A half of the work can be divided among cores."""
    _note("begin", question, cores)
    time.sleep(float(question.split()[0]) * (0.5 + 0.5 / cores))
    _note("end", question, cores)
    return b"%d" % cores


def die_at_first(question):
    """Its process is killed when it is asked for the first time."""
    is_first = not calls()
    _note("begin", question)
    if is_first:
        os.kill(os.getpid(), signal.SIGKILL)
    return b"alive"


def variable(question):
    return os.environ.get(question.decode(), "none").encode()


def hang(question):
    _note("begin", question)
    time.sleep(3600)


def release():
    _released().touch()


def calls():
    path = Path(os.environ["CALLS"])
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    fields = (line.split(" ", 4) for line in lines)
    return [Note(what, float(when), int(pid), int(cores), question) for what, when, pid, cores, question in fields]


def most_at_once(noted, cores=False):
    """Return the most actions, or cores of actions, at any instant. Actions that end at it do not count."""
    running = most = 0
    for note in sorted(noted, key=lambda note: (note.when, note.what == "begin")):
        running += (1 if note.what == "begin" else -1) * (note.cores if cores else 1)
        most = max(most, running)
    return most


def _released():
    return Path(f"{os.environ['CALLS']}.released")


def _await(is_so):
    """Waits until it is so, for a minute at most."""
    until = time.monotonic() + 60
    while not is_so() and time.monotonic() < until:
        time.sleep(0.01)


def _note(what, question, cores=1):
    with Path(os.environ["CALLS"]).open("a", encoding="utf-8") as file:
        file.write(f"{what} {time.monotonic()!r} {os.getpid()} {cores} {question.decode()}\n")
