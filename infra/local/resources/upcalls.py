"""Questions of a task to its pool in the middle of its work: the task blocks until all are answered."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from threading import Lock

from functions.encoding import MessagePackDecoder, to_message_pack
from functions.resources.port import Action, Outcome, ResourceFault
from infra.local.pipe_messages import Ask, Call, Inbox, Restart, Told, frame

_OUTCOMES = MessagePackDecoder[Outcome](Outcome)


class Upcalls:
    """The host of a worker's tasks: `send` writes to the pool, whose answers are in `inbox`."""

    def __init__(self, inbox: Inbox, send: Callable[[bytes], None]) -> None:
        self._inbox, self._send = inbox, send
        self._numbers = count()
        self._token: int | None = None
        self._process = os.getpid()
        # One thread of a task asks after the other; the answers of a batch come side by side.
        self._lock = Lock()
        self._decoder = MessagePackDecoder[Call | Told](Call | Told)

    @contextmanager
    def serving(self, token: int) -> Iterator[None]:
        """The task of that token may ask."""
        self._token = token
        try:
            yield
        finally:
            with self._lock:  # a thread of the task may still wait, and only one can read
                self._token = None

    def ask(self, name: str, actions: Sequence[Action]) -> list[Outcome]:
        """See `functions.resources.port.Host`."""
        if os.getpid() != self._process:
            raise ResourceFault(f"resource {name!r}: a process that a task has started cannot ask; its task can")
        with self._lock:
            if self._token is None:
                raise ResourceFault(f"resource {name!r}: the task has ended whose environment asks")
            places = {next(self._numbers): place for place in range(len(actions))}
            questions = zip(places, actions, strict=True)
            self._send(
                b"".join(
                    frame(Ask(name, number, action.key, self._token), action.question) for number, action in questions
                )
            )
            outcomes: dict[int, Outcome] = {}
            while len(outcomes) < len(actions):
                for message, body in self._answers():
                    if message.number in places:  # others are of a batch that an exception has interrupted
                        outcomes[places[message.number]] = _OUTCOMES.decode(body)
            return [outcomes[place] for place in range(len(actions))]

    def restart_clock(self) -> None:
        """See `functions.resources.port.ProcessResources`."""
        if self._token is not None:
            self._send(frame(Restart(self._token)))

    def _answers(self) -> Iterator[tuple[Told, bytes]]:
        if not self._inbox.fill():
            raise ConnectionResetError("the pool of this worker is gone")
        for header, body in self._inbox.frames():
            if isinstance(message := self._decoder.decode(header), Told):
                yield message, body


def answer_frame(number: int, token: int, outcome: Outcome) -> bytes:
    """The frame that answers a question of the task of the token."""
    return frame(Told(number, token), to_message_pack(outcome))
