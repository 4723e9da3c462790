"""The judge of the example `program_writers` with a diary of its own: a line for each question that it is asked."""

import hashlib
import os
import secrets

from examples.resources import program_writers
from functions.encoding import to_json
from functions.resources.sandbox import Sandbox

DIARY = "JUDGE_DIARY"
"""The variable that names the file."""


def grade(question: bytes, sandbox: Sandbox) -> bytes:
    """As the example grades."""
    _write(question)
    return program_writers.grade(question, sandbox)


def moody(question: bytes) -> bytes:
    """Another grade every time."""
    _write(question)
    return to_json(secrets.randbelow(1000) / 1000)


def _write(question: bytes) -> None:
    line = hashlib.sha256(question).hexdigest() + "\n"
    # One write of an appending file: lines of several processes do not mix.
    descriptor = os.open(os.environ[DIARY], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
