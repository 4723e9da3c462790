"""Parses events of functions' logs, joins them by the invocation's request id, and assigns them to runs."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from marless.functions.encoding import Undecodable, from_json
from marless.infra.aws.cloudwatch import Event

# Keys that Powertools writes next to the message (Powertools for AWS Lambda, "Logger", standard structured keys).
_STANDARD = ("level", "location", "message", "timestamp", "service")
_REQUEST_ID, _CORRELATION_ID = "function_request_id", "correlation_id"
_NOISE = re.compile(r"(START|END) RequestId: |INIT_START |EXTENSION\t")
# Lines of the platform that name the invocation (Lambda developer guide, "Viewing CloudWatch logs for Lambda
# functions").
_NAMING = re.compile(r"(?:(?P<kind>START|END|REPORT) )?RequestId: (?P<id>\S+)(?: Version: (?P<version>\S+))?")
_REPORT = re.compile(
    r"REPORT RequestId: \S+\s+Duration: (?P<took>\S+) ms\s+Billed Duration: (?P<billed>\d+) ms\s+"
    r"Memory Size: (?P<size>\d+) MB\s+Max Memory Used: (?P<used>\d+) MB\s*(?P<rest>.*)",
    re.DOTALL,
)
_TIMED_OUT = re.compile(r"\S+ \S+ (Task timed out after .*)")
_EXITED = re.compile(r"RequestId: \S+ (Error: .*)", re.DOTALL)
_PREFIXED = re.compile(r"\[(ERROR|WARNING|INFO|DEBUG)\]\s+(.*)", re.DOTALL)
_ERROR = "ERROR"


@dataclass(frozen=True)
class LogLine:
    """A parsed event. `level` is the logger's, ERROR for errors that the platform reports, else ''. `request_id` is the
    invocation's, '' outside of one. `correlation_id` is the run or the task that the invocation named, else ''."""

    at: float
    function: str
    level: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)
    request_id: str = ""
    correlation_id: str = ""

    @property
    def run(self) -> str:
        """The run that the invocation named, else ''."""
        return self.correlation_id.partition("/")[0]


@dataclass
class _Invocation:
    id: str
    correlation_id: str = ""
    version: str = ""
    # Lines that came before the invocation named its run.
    lines: list[LogLine] = field(default_factory=list)


class Reader:
    """Reads events in order. With a run, lines of other runs are left out.

    Only our lines name a run, and only Lambda's line about an invocation's end has its figures. Both belong to one
    invocation if they have the same request id. An invocation that named no run is returned only if it is an error.
    """

    def __init__(self, run: str | None) -> None:
        self._run = run
        # By request id.
        self._invocations: dict[str, _Invocation] = {}
        # The last invocation of each execution environment, by function and stream: messages of a process's end follow
        # the report of its last invocation.
        self._serving: dict[tuple[str, str], _Invocation] = {}

    def read(self, events: Iterable[Event]) -> list[LogLine]:
        """The lines of further events, the oldest first."""
        return sorted((line for event in events for line in self._read(event)), key=lambda line: line.at)

    def _read(self, event: Event) -> Iterator[LogLine]:
        fields = _fields_of(event.text)
        invocation = self._invocation(event, fields)
        if (line := _line(event, fields)) is None:
            return
        if invocation is None:
            if self._run is None or line.level == _ERROR:
                yield line
            return
        if event.text.startswith("REPORT "):
            line.fields["function_version"] = invocation.version
        invocation.lines.append(line)
        full_line = replace(line, request_id=invocation.id, correlation_id=invocation.correlation_id)
        if self._run is None or full_line.run == self._run or (line.level == _ERROR and not full_line.run):
            waiting_lines, invocation.lines = invocation.lines, []
            for one in waiting_lines:
                yield replace(one, request_id=invocation.id, correlation_id=invocation.correlation_id)

    def _invocation(self, event: Event, fields: dict[str, Any] | None) -> _Invocation | None:
        environment = (event.function, event.stream)
        naming = _NAMING.match(event.text)
        id = naming["id"] if naming else str((fields or {}).get(_REQUEST_ID, ""))
        if not id:
            return self._serving.get(environment)
        invocation = self._invocations.setdefault(id, _Invocation(id))
        if naming and naming["kind"] == "START":
            if environment in self._serving:
                self._invocations.pop(self._serving[environment].id, None)
            self._serving[environment] = invocation
            invocation.version = naming["version"] or ""
        if fields and _CORRELATION_ID in fields:
            invocation.correlation_id = str(fields[_CORRELATION_ID])
        return invocation


def _fields_of(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        return from_json(text, dict[str, Any])
    except Undecodable:
        return None


def _line(event: Event, fields: dict[str, Any] | None) -> LogLine | None:
    at, function, text = event.at, event.function, event.text
    if fields is not None:
        if "_aws" in fields or "message" not in fields:  # a metric (CloudWatch embedded metric format)
            return None
        left_out = (*_STANDARD, _REQUEST_ID, _CORRELATION_ID)
        extra = {name: value for name, value in fields.items() if name not in left_out}
        return LogLine(at, function, str(fields.get("level", "")), str(fields["message"]), extra)
    if not text or _NOISE.match(text):
        return None
    if match := _REPORT.match(text):
        return LogLine(at, function, _ERROR if "Status: " in match["rest"] else "", _report(match), _figures(match))
    if match := _TIMED_OUT.fullmatch(text) or _EXITED.fullmatch(text):
        return LogLine(at, function, _ERROR, match[1])
    if match := _PREFIXED.match(text):
        return LogLine(at, function, match[1], match[2])
    return LogLine(at, function, _ERROR if text.startswith("INIT_REPORT ") else "", text)


def _report(match: re.Match[str]) -> str:
    numbers = f"ran {match['took']} ms, billed {match['billed']} ms, {match['used']} of {match['size']} MB"
    return ", ".join([numbers, *(rest.strip() for rest in match["rest"].split("\t") if rest.strip())])


def _figures(match: re.Match[str]) -> dict[str, Any]:
    return {
        "duration_ms": float(match["took"]),
        "billed_ms": int(match["billed"]),
        "function_memory_size": int(match["size"]),
        "max_memory_used": int(match["used"]),
    }
