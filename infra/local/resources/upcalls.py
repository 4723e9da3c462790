"""Questions of a task to its pool in the middle of its work: the task blocks until all are answered."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from threading import Lock

from marless.functions.encoding import MessagePackDecoder, to_message_pack
from marless.functions.resources.port import CallOutcome, ResourceCall, ResourceFault
from marless.infra.local.pipe_messages import (
    Ask,
    Damaged,
    Inbox,
    ObjectStored,
    Offer,
    ResourceAnswer,
    Restart,
    TaskCall,
    checked_header,
    frame,
)

Answer = ResourceAnswer | ObjectStored
DAMAGED = os.EX_PROTOCOL
"""The exit status of a process that received a damaged message."""
_OUTCOMES = MessagePackDecoder[CallOutcome](CallOutcome)


class NoTask(Exception):
    """No task can ask now. The message says why."""


class Upcalls:
    """The host of a worker's tasks. `send` writes to the pool, and its answers arrive in `inbox`."""

    def __init__(self, inbox: Inbox, send: Callable[[bytes], None]) -> None:
        self._inbox, self._send = inbox, send
        self._numbers = count()
        self._token: int | None = None
        self._process = os.getpid()
        # The threads of a task ask one after the other. The answers of a batch arrive in parallel.
        self._lock = Lock()
        self._decoder = MessagePackDecoder[TaskCall | Offer | Answer](TaskCall | Offer | Answer)

    @contextmanager
    def serving(self, token: int) -> Iterator[None]:
        """The task of that token may ask."""
        self._token = token
        try:
            yield
        finally:
            with self._lock:  # a thread of the task may still wait, and only one can read
                self._token = None

    def ask(self, name: str, calls: Sequence[ResourceCall]) -> list[CallOutcome]:
        """See `marless.functions.resources.port.Host`."""
        questions = [
            lambda number, token, each=call: frame(Ask(name, number, each.key, token), each.question) for call in calls
        ]
        try:
            answers = self.exchange(questions)
        except NoTask as error:
            raise ResourceFault(f"resource {name!r}: {error}") from None
        return [_OUTCOMES.decode(body) for _, body in answers]

    def exchange(self, questions: Sequence[Callable[[int, int], bytes]]) -> list[tuple[Answer, bytes]]:
        """Sends the frames of the task's questions, each made of its number and the task's token. Waits for all
        answers, and returns them in the order of the questions. Raises `NoTask`."""
        with self._asking() as token:
            places = {next(self._numbers): place for place in range(len(questions))}
            numbered = zip(places, questions, strict=True)
            self._send(b"".join(question(number, token) for number, question in numbered))
            answers: dict[int, tuple[Answer, bytes]] = {}
            while len(answers) < len(questions):
                for message, body in self._answers():
                    if message.number in places:  # others are of a batch that an exception has interrupted
                        answers[places[message.number]] = message, body
            return [answers[place] for place in range(len(questions))]

    def tell(self, message: Callable[[int, int], bytes]) -> None:
        """Sends a frame without an answer, made like in `exchange`. Raises `NoTask`."""
        with self._asking() as token:
            self._send(message(next(self._numbers), token))

    @contextmanager
    def _asking(self) -> Iterator[int]:
        """The token of the task, which only this thread uses meanwhile. Raises `NoTask`."""
        if os.getpid() != self._process:
            raise NoTask("a process that a task has started cannot ask; its task can")
        with self._lock:
            if self._token is None:
                raise NoTask("the task has ended whose environment asks")
            yield self._token

    def restart_clock(self) -> None:
        """See `marless.functions.resources.port.ProcessResources`."""
        if self._token is not None:
            self._send(frame(Restart(self._token)))

    def _answers(self) -> Iterator[tuple[Answer, bytes]]:
        if not self._inbox.fill():
            raise ConnectionResetError("the pool of this worker is gone")
        for header, body in self._inbox.frames():
            if isinstance(message := heard(self._decoder, header, body), ResourceAnswer | ObjectStored):
                yield message, body


def heard(
    decoder: MessagePackDecoder[TaskCall | Offer | Answer], header: bytes, body: bytes
) -> TaskCall | Offer | Answer:
    """The message of the pool. A damaged one ends the process, and the task begins again elsewhere."""
    try:
        return checked_header(decoder, header, body)
    except Damaged:
        os._exit(DAMAGED)


def answer_frame(number: int, token: int, outcome: CallOutcome) -> bytes:
    """The frame that answers a question of the task of the token."""
    return frame(ResourceAnswer(number, token), to_message_pack(outcome))
