"""The judge of examples/judge.toml behind a count. Each question is a line of the file of CALLS, on the disk before the
program of the question runs."""

import hashlib
import os

from examples.resources import program_writers


def grade(question, sandbox):
    line = f"{hashlib.sha256(question).hexdigest()}\n".encode()
    file = os.open(os.environ["CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)
    return program_writers.grade(question, sandbox)
