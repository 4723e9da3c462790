"""Ask a program in lines, so that an answer belongs to its question or is an error.

A printed line does not say which question it answers, and silence leaves later lines open. So by default a program is
asked one question. Then its input ends, and all that it prints until it ends is looked at. A program that is kept
running proves that its answer is complete and belongs to the question. To do so, it says that it is ready again
(`ping`), or repeats a random word (`tagged`).
"""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from marless.functions.resources.serving.kinds.kind import NoAnswer
from marless.functions.resources.serving.kinds.program import Program, ending
from marless.functions.resources.settings import Resource

_ONE_LINE = "without until a question is one line, and this one has a line break"


class ProgramOutput(NamedTuple):
    """Everything that a program has printed after `ready`, and its exit status."""

    lines: Sequence[bytes]
    status: int

    def fault(self, resource: Resource) -> NoAnswer:
        """Return the error of a program that printed no answer, or several."""
        if self.status or not _ends(self.lines, resource.until.encode()):
            return NoAnswer(f"it has ended: {ending(self.status)}")
        end = f"a line that starts with {resource.until!r}" if resource.until else "one line"
        return NoAnswer(f"it printed more than its answer, which ends with {end}; see until, ready and tagged")


def last_output(program: Program, question: bytes | None, resource: Resource, deadline: float) -> ProgramOutput:
    """Ask a program its only question, or none, and return all that it prints until it ends.

    Raises `NoAnswer`, and `TimeoutError` at the deadline, by the monotonic clock.
    """
    lines, until = [], resource.until.encode()
    _skip_to_ready(program, resource, deadline)
    program.say(b"" if question is None else _text(question, until))
    if question is None or not until:
        program.end_input()
    try:
        while (line := program.line(deadline)) is not None:
            lines.append(line)
            if _ends([line], until):
                program.end_input()
        status = program.status(deadline)
    except TimeoutError:
        if not _ends(lines, until):
            raise
        raise NoAnswer("it goes on after the end of its input; ping or tagged keep a program running") from None
    if program.unread() and not status:
        raise NoAnswer("it ended before it had read the whole question")
    return ProgramOutput(lines, status)


def answer_in(lines: Sequence[bytes], until: bytes) -> bytes | None:
    """Return the lines up to the only line that starts with `until`. None if there are several or zero."""
    ends = _ends(lines, until)
    return b"\n".join(lines[: ends[0] + 1]).removesuffix(b"\r") if len(ends) == 1 else None


def answer_after_banner(output: ProgramOutput, unasked: ProgramOutput, until: bytes) -> bytes | None:
    """Return the answer in an output, given the output of the same program without a question. None if it is unclear.

    Lines that a program prints without a question are a banner. If one of them comes twice, either may be the answer.
    The program may also end with the same status, as a loop of `input()` in Python does.
    """
    banner = unasked.lines if _ends(unasked.lines, until) else []
    first, rest = output.lines[: len(banner)], output.lines[len(banner) :]
    if output.status != unasked.status or first != banner or not {*banner}.isdisjoint(rest):
        return None
    return answer_in(rest, until)


def _ends(lines: Sequence[bytes], until: bytes) -> list[int]:
    return [place for place, line in enumerate(lines) if line.startswith(until)]


def ask_kept(program: Program, question: bytes, resource: Resource, deadline: float) -> bytes:
    """Ask a program that is kept running. Raises the errors of `last_output`."""
    return (_ask_tagged if resource.tagged else _ask_pinged)(program, question, resource, deadline)


def _ask_pinged(program: Program, question: bytes, resource: Resource, deadline: float) -> bytes:
    """Ask a program that says, before and after its answer, that it is ready."""
    until, ready, ping = resource.until.encode(), resource.ready.encode(), resource.ping.encode() + b"\n"
    if not program.is_asked:
        program.say(ping)
        _skip_to_ready(program, resource, deadline)
    program.say(_text(question, until))
    lines: list[bytes] = []
    while not lines or not lines[-1].startswith(until):
        lines.append(_line(program, deadline))
        if lines[-1].startswith(ready):
            raise NoAnswer(f"it printed {resource.ready!r} although it was asked a question")
    program.say(ping)
    if not _line(program, deadline).startswith(ready):
        raise NoAnswer(f"it printed more than its answer before {resource.ready!r}")
    return b"\n".join(lines).removesuffix(b"\r")


def _ask_tagged(program: Program, question: bytes, resource: Resource, deadline: float) -> bytes:
    """Ask a program that repeats the random word before a question in the line of its answer."""
    text = _text(question, b"")
    if len(text.decode("utf-8", "replace").splitlines()) != 1:
        raise NoAnswer(f"{_ONE_LINE} of Unicode")
    tag = secrets.token_hex(8).encode()
    program.say(tag + b" " + text)
    while True:
        word, _, answer = _line(program, deadline).removesuffix(b"\r").partition(b" ")
        if word == tag:
            return answer


def _text(question: bytes, until: bytes) -> bytes:
    """Return a question with the end of its last line. A question may have several lines only if its answer may."""
    text = question.rstrip(b"\n")
    if not until and (b"\n" in text or b"\r" in text):
        raise NoAnswer(_ONE_LINE)
    return text + b"\n"


def _line(program: Program, deadline: float) -> bytes:
    if (line := program.line(deadline)) is None:
        raise program.ending()
    return line


def _skip_to_ready(program: Program, resource: Resource, deadline: float) -> None:
    try:
        while resource.ready and not _line(program, deadline).startswith(resource.ready.encode()):
            pass
    except TimeoutError:
        raise NoAnswer(f"it has printed no line that starts with {resource.ready!r} (ready)") from None
