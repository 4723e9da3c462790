"""Reads the functions' log events from CloudWatch Logs. Each function has a log group."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import storage_errors

# CloudWatch may ingest an event seconds after it happened, so a reader that follows a log looks back this far.
LATE_S = 60.0


@dataclass(frozen=True)
class Event:
    """One event: `at` in seconds since 1970. Events of one `stream`, an execution environment, are in order."""

    at: float
    function: str
    stream: str
    text: str


class Logs:
    """The events of `groups`, names of log groups by function. A group of the functions `optional` may be missing."""

    def __init__(self, cloud: Cloud, groups: Mapping[str, str], optional: Collection[str] = ()) -> None:
        self._client = cloud.client("logs")
        self._groups, self._optional = dict(groups), optional
        self._seen: dict[str, float] = {}

    def since(self, moment: float) -> list[Event]:
        """The events since `moment` (seconds since 1970) that no earlier call returned, the oldest first.

        Raises `StorageFault`.
        """
        events = [event for function in self._groups for event in self._read(function, moment)]
        # Events before `moment` cannot be returned again, so their ids are dropped.
        self._seen = {name: at for name, at in self._seen.items() if at >= moment}
        # Stable: events of one stream with the same time stay in order.
        return sorted(events, key=lambda event: event.at)

    def _read(self, function: str, moment: float) -> Iterator[Event]:
        group = self._groups[function]
        arguments: dict[str, Any] = {"logGroupName": group, "startTime": int(moment * 1000)}
        with storage_errors("read", f"the log {group}"):
            while True:
                try:
                    answer = self._client.filter_log_events(**arguments)
                except self._client.exceptions.ResourceNotFoundException:
                    if function in self._optional:
                        return
                    raise
                for event in answer["events"]:
                    if event["eventId"] not in self._seen:
                        at = self._seen[event["eventId"]] = event["timestamp"] / 1000
                        yield Event(at, function, event["logStreamName"], event["message"].rstrip())
                # An empty page need not be the last page (API_FilterLogEvents, nextToken).
                if "nextToken" not in answer:
                    return
                arguments["nextToken"] = answer["nextToken"]
