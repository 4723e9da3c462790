"""A resource that is a program: ``command = "./judge"``. It is spoken to in lines, see `line_protocols`.

A question is written to it, with a line's end behind it. The answer is one line, or with `until` all lines up to the
first that starts with it. By default a program answers one question. The next one is begun after the answer, so that it
may be ready by the next question. With `ping` or `tagged` a program is kept running. A program that answers too late,
or prints more than its answer, is ended, and started again for the next question. With the setting `sandbox` it runs in
bubblewrap.
"""

import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from marless.functions.resources.port import ResourceCall
from marless.functions.resources.serving.kinds import line_protocols
from marless.functions.resources.serving.kinds.kind import NoAnswer, Start
from marless.functions.resources.serving.kinds.program import Program
from marless.functions.resources.settings import Resource, is_token

# Within the block a command can be started so.
Isolated = AbstractContextManager[Start]


class Command:
    """The program of a resource."""

    def __init__(self, words: Sequence[str], resource: Resource, isolate: Callable[[], Isolated]) -> None:
        self._words, self._resource, self._isolate = words, resource, isolate
        self._program: Program | None = None
        # The output of the program without a question, once it was needed.
        self._unasked: line_protocols.ProgramOutput | None = None

    def answer(self, call: ResourceCall, cores: int) -> bytes:
        """Return its answer to the question. Raises `NoAnswer`."""
        deadline = time.monotonic() + self._resource.timeout_s
        try:
            if self._resource.ping or self._resource.tagged:
                return line_protocols.ask_kept(self._running(), call.question, self._resource, deadline)
            answer = self._only_answer(call.question, deadline)
        except TimeoutError as error:
            self.close()
            raise NoAnswer(f"no answer within {self._resource.timeout_s:g} s") from error
        except BaseException:
            self.close()
            raise
        with suppress(NoAnswer):  # the next question will say so
            self._running()
        return answer

    def _only_answer(self, question: bytes, deadline: float) -> bytes:
        until = self._resource.until.encode()
        output = self._output(question, deadline)
        answer = line_protocols.answer_in(output.lines, until)
        if output.status or (answer is None and output.lines):
            if self._unasked is None:
                self._unasked = self._output(None, deadline)
            answer = line_protocols.answer_after_banner(output, self._unasked, until)
        if answer is None:
            raise output.fault(self._resource)
        return answer

    def _output(self, question: bytes | None, deadline: float) -> line_protocols.ProgramOutput:
        output = line_protocols.last_output(self._running(), question, self._resource, deadline)
        self.close()
        return output

    def close(self) -> None:
        """Ends the program and its children."""
        if self._program is not None:
            program, self._program = self._program, None
            program.close()

    def _running(self) -> Program:
        """The program, started again if it has ended or printed something unasked."""
        if (program := self._program) is not None:
            is_unasked = bool(self._resource.ping) and program.is_asked and program.has_printed()
            if is_unasked or program.has_ended():
                self.close()
        if self._program is None:
            self._program = self._started()
        return self._program

    def _started(self) -> Program:
        try:
            with self._isolate() as start:
                return Program(start)
        except OSError as error:
            raise NoAnswer(f"command {self._words[0]!r} cannot be started: {error.strerror or error}") from error


def begin(name: str, resource: Resource) -> Command:
    """The program that the resource names."""
    words = shlex.split(resource.command)

    def isolate() -> Isolated:
        if resource.sandbox == "none":
            return nullcontext(Start(words, {name: value for name, value in os.environ.items() if not is_token(name)}))
        from marless.functions.resources.serving.sandbox import isolated

        return isolated(words, resource.memory_mb, resource.sandbox_paths)

    return Command(words, resource, isolate)
