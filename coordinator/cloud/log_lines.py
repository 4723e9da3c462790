"""Parses events of a function's log and assigns them to runs."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from infra.aws.cloudwatch import Event

# What powertools writes beside the message (Powertools for AWS Lambda, "Logger", standard structured keys), and ours.
_STANDARD = ("level", "location", "message", "timestamp", "service", "correlation_id", "xray_trace_id")
_NOISE = re.compile(r"(START|END) RequestId: |INIT_START |EXTENSION\t")
_REPORT = re.compile(
    r"REPORT RequestId: \S+\s+Duration: (?P<took>\S+) ms\s+Billed Duration: (?P<billed>\d+) ms\s+"
    r"Memory Size: (?P<size>\d+) MB\s+Max Memory Used: (?P<used>\d+) MB\s*(?P<rest>.*)",
    re.DOTALL,
)
_TIMED_OUT = re.compile(r"\S+ \S+ (Task timed out after .*)")
_PREFIXED = re.compile(r"\[(ERROR|WARNING|INFO|DEBUG)\]\s+(.*)", re.DOTALL)
_ERROR = "ERROR"


@dataclass(frozen=True)
class Line:
    """A parsed event. `level` is the logger's, ERROR for errors that the platform reports, else ''."""

    at: float
    function: str
    level: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)


class Reader:
    """Reads events in order. With a run, events of other runs are left out.

    Only our own lines name a run. A line of the platform belongs to the run that the same invocation named last; one of
    an invocation that named no run is returned only if it is an error.
    """

    def __init__(self, run: str | None) -> None:
        self._run = run
        self._owners: dict[tuple[str, str], str] = {}

    def read(self, event: Event) -> Line | None:
        """The parsed line, None for an event to leave out."""
        if event.text.startswith("START "):
            self._owners.pop((event.function, event.stream), None)
        parsed = _parsed(event.text)
        if parsed is not None and "correlation_id" in parsed:
            self._owners[event.function, event.stream] = str(parsed["correlation_id"]).partition("/")[0]
        line = _line(event, parsed)
        return line if line and self._is_wanted(event, line) else None

    def _is_wanted(self, event: Event, line: Line) -> bool:
        if self._run is None:
            return True
        owner = self._owners.get((event.function, event.stream))
        return owner == self._run or (owner is None and line.level == _ERROR)


def _parsed(text: str) -> dict[str, Any] | None:
    """The fields of an event that our logger wrote; None for other events."""
    if not text.startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _line(event: Event, parsed: dict[str, Any] | None) -> Line | None:
    at, function, text = event.at, event.function, event.text
    if parsed is not None:
        if "_aws" in parsed or "message" not in parsed:  # a metric (CloudWatch embedded metric format)
            return None
        extra = {name: value for name, value in parsed.items() if name not in _STANDARD}
        return Line(at, function, str(parsed.get("level", "")), str(parsed["message"]), extra)
    if not text or _NOISE.match(text):
        return None
    if found := _REPORT.match(text):
        return Line(at, function, _ERROR if "Status: " in found["rest"] else "", _report(found))
    if found := _TIMED_OUT.fullmatch(text):
        return Line(at, function, _ERROR, found[1])
    if found := _PREFIXED.match(text):
        return Line(at, function, found[1], found[2])
    return Line(at, function, _ERROR if text.startswith("INIT_REPORT ") else "", text)


def _report(found: re.Match[str]) -> str:
    """Lambda's report of an invocation, shortened."""
    numbers = f"ran {found['took']} ms, billed {found['billed']} ms, {found['used']} of {found['size']} MB"
    return ", ".join([numbers, *(rest.strip() for rest in found["rest"].split("\t") if rest.strip())])
