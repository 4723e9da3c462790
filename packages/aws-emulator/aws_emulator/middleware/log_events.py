"""Reading from the emulated account's CloudWatch Logs: WSGI middleware that answers FilterLogEvents.

moto keeps the log groups. Their events are kept here, which saves a request to moto per event and limits memory use.
Requests and answers follow the API reference, "FilterLogEvents".
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from aws_emulator.encoding import from_json
from aws_emulator.wsgi import App, Environ, Start, body, operation, reply, service

# The events kept in memory for each group. Its file holds more.
_MOST_EVENTS = 50_000
# API_FilterLogEvents, limit.
_PAGE = 10_000
_UNDERSTOOD = {"logGroupName", "startTime", "nextToken"}
_KIND = "application/x-amz-json-1.1"

Write = Callable[[str, str, list[str]], None]

# A log file larger than this is renamed to `.log.1`, which replaces the previous one.
_LARGEST = 16 << 20


class LogFiles:
    """The log groups below `folder`: ``/marless/stack/actor`` is the file ``marless-stack-actor.log``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def write(self, group: str, stream: str, lines: list[str]) -> None:
        """Appends the lines to the group's file without interleaving other writers' lines."""
        path = self.path(group)
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{stream[-8:]} {line}\n" for line in lines))
            if path.stat().st_size > _LARGEST:
                path.replace(path.with_suffix(".log.1"))

    def path(self, group: str) -> Path:
        """The group's file."""
        return self._folder / f"{group.strip('/').replace('/', '-')}.log"


class _Event(NamedTuple):
    id: int
    at_ms: int
    stream: str
    text: str


class LogEvents:
    """Keeps the newest events of every log group and forwards them to `write`, thread-safe."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._groups: dict[str, deque[_Event]] = {}
        self._lock, self._ids = threading.Lock(), count()

    def write(self, group: str, stream: str, lines: list[str]) -> None:
        """Records the events of one invocation."""
        at_ms = int(time.time() * 1000)
        with self._lock:
            events = self._groups.setdefault(group, deque(maxlen=_MOST_EVENTS))
            events.extend(_Event(next(self._ids), at_ms, stream, line) for line in lines)
        self._write(group, stream, lines)

    def since(self, group: str, at_ms: int, first: int) -> list[_Event] | None:
        """Events from the time `at_ms` and the id `first` on, or None for an empty group."""
        with self._lock:
            events = self._groups.get(group)
            return None if events is None else [event for event in events if event.at_ms >= at_ms and event.id >= first]

    def forget(self, group: str) -> None:
        """Drops the group's events."""
        with self._lock:
            self._groups.pop(group, None)


class LogsApi:
    """Answers FilterLogEvents from `events`. `app` gets requests about groups without events, and all others."""

    def __init__(self, app: App, events: LogEvents) -> None:
        self._app, self._events = app, events

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        if service(environ) == "logs":
            request = from_json(body(environ), dict[str, Any])
            match operation(environ):
                case "FilterLogEvents":
                    if unknown := sorted(request.keys() - _UNDERSTOOD):
                        return _refuse(start, f"the emulated account does not know {', '.join(unknown)}")
                    page = self._filter_log_events(request)
                    if page is not None:
                        return reply(start, "200 OK", json.dumps(page).encode(), _KIND)
                case "DeleteLogGroup":
                    self._events.forget(request["logGroupName"])
        return self._app(environ, start)

    def _filter_log_events(self, request: dict[str, Any]) -> dict[str, Any] | None:
        first = int(request.get("nextToken", 0))
        matches = self._events.since(request["logGroupName"], request.get("startTime", 0), first)
        if matches is None:
            return None
        page = matches[:_PAGE]
        events = [
            {
                "eventId": str(event.id),
                "logStreamName": event.stream,
                "timestamp": event.at_ms,
                "ingestionTime": event.at_ms,
                "message": event.text,
            }
            for event in page
        ]
        more = {"nextToken": str(page[-1].id + 1)} if len(matches) > _PAGE else {}
        return {"events": events, "searchedLogStreams": [], **more}


def _refuse(start: Start, message: str) -> Iterable[bytes]:
    text = json.dumps({"__type": "InvalidParameterException", "message": message}).encode()
    return reply(start, "400 Bad Request", text, _KIND)
