"""What an event of a function's log says, and of which run. Pure."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from infra.aws.cloudwatch import Event

# What powertools writes beside the message (Powertools for AWS Lambda, "Logger", standard structured keys), and ours.
_USUAL = ("level", "location", "message", "timestamp", "service", "correlation_id", "xray_trace_id")
_NOTHING_NEW = re.compile(r"(START|END) RequestId: |INIT_START |EXTENSION\t")
_REPORT = re.compile(
    r"REPORT RequestId: \S+\s+Duration: (?P<took>\S+) ms\s+Billed Duration: (?P<billed>\d+) ms\s+"
    r"Memory Size: (?P<size>\d+) MB\s+Max Memory Used: (?P<used>\d+) MB\s*(?P<rest>.*)",
    re.DOTALL,
)
_TIMED_OUT = re.compile(r"\S+ \S+ (Task timed out after .*)")
_SAID = re.compile(r"\[(ERROR|WARNING|INFO|DEBUG)\]\s+(.*)", re.DOTALL)
_ERROR = "ERROR"


@dataclass(frozen=True)
class Line:
    """An event as people read it. `level` is the logger's, ERROR for trouble that the platform tells of, else ''."""

    at: float
    function: str
    level: str
    message: str
    fields: dict[str, Any] = field(default_factory=dict)


class Reader:
    """Reads events in order. With a run, those of other runs are left out, and what nobody has to know of it.

    Only our own lines name a run. What the platform writes is of the run whose line came last in the same invocation;
    an invocation that says nothing is shown, for any run, where it went wrong.
    """

    def __init__(self, run: str | None) -> None:
        self._run = run
        self._owners: dict[tuple[str, str], str] = {}

    def read(self, event: Event) -> Line | None:
        """The line to show, None for one that is not."""
        if event.text.startswith("START "):
            self._owners.pop((event.function, event.stream), None)
        parsed = _parsed(event.text)
        if parsed is not None and "correlation_id" in parsed:
            self._owners[event.function, event.stream] = str(parsed["correlation_id"]).partition("/")[0]
        line = _line(event, parsed)
        return line if line and self._wanted(event, line) else None

    def _wanted(self, event: Event, line: Line) -> bool:
        if self._run is None:
            return True
        owner = self._owners.get((event.function, event.stream))
        return owner == self._run or (owner is None and line.level == _ERROR)


def _parsed(text: str) -> dict[str, Any] | None:
    """The event as our logger wrote it; None where it did not."""
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
        extra = {name: value for name, value in parsed.items() if name not in _USUAL}
        return Line(at, function, str(parsed.get("level", "")), str(parsed["message"]), extra)
    if not text or _NOTHING_NEW.match(text):
        return None
    if found := _REPORT.match(text):
        return Line(at, function, _ERROR if "Status: " in found["rest"] else "", _report(found))
    if found := _TIMED_OUT.fullmatch(text):
        return Line(at, function, _ERROR, found[1])
    if found := _SAID.match(text):
        return Line(at, function, found[1], found[2])
    return Line(at, function, _ERROR if text.startswith("INIT_REPORT ") else "", text)


def _report(found: re.Match[str]) -> str:
    """What an invocation took, shorter than Lambda has it."""
    figures = f"ran {found['took']} ms, billed {found['billed']} ms, {found['used']} of {found['size']} MB"
    return ", ".join([figures, *(rest.strip() for rest in found["rest"].split("\t") if rest.strip())])
