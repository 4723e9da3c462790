"""Judge a program by its output: the share of the expected output that it prints, in a sandbox in a separate process.

The expected output stays outside the sandbox, so a program cannot look it up or answer for its judge.
"""

from itertools import zip_longest

import msgspec

from marless.functions.encoding import JsonDecoder, to_json
from marless.functions.resources.serving.sandbox import Sandbox


class Assignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question to the judge, as JSON."""

    program: str
    # The expected output.
    output: str
    # Its standard input.
    input: str = ""


_ASSIGNMENTS = JsonDecoder(Assignment)


def grade(question: bytes, sandbox: Sandbox) -> bytes:
    """Return the share of right lines for an `Assignment`, as JSON. Raises `Undecodable` for another question."""
    assignment = _ASSIGNMENTS.decode(question)
    return to_json(share_of_lines(assignment.program, assignment.input, assignment.output, sandbox))


def share_of_lines(program: str, typed: str, expected: str, sandbox: Sandbox) -> float:
    """The share of the lines of `expected` that the program prints in their place. Blanks around a line do not count.

    It is 0 where the program does not end well, and lines too many count as wrong ones.
    """
    output, error = sandbox.run(program, typed.encode())
    if error:
        return 0.0
    lines = list(zip_longest(_lines(output.decode("utf-8", "replace")), _lines(expected)))
    return sum(is_line == line for is_line, line in lines) / len(lines) if lines else 1.0


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]
