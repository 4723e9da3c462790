"""The emulated account's counts for a run, compared with the run's bill.

`aws_emulator/middleware/request_counter.py` counts requests by AWS's billing rules and by key, independently of the
bill. Which run and which kind of item a key belongs to is known here. REPORT lines give Lambda's bill.
"""

import heapq
import json
import re
import urllib.request
from collections import Counter, defaultdict
from decimal import Decimal

from aws_emulator.middleware.request_counter import PATH


def run_called(event):
    """Return the run in the address of a task's request, or of an event for the coordinator."""
    return event.get("address.run", event.get("run"))


class Counted:
    def __init__(self, place, run):
        with urllib.request.urlopen(place.account.whereabouts.endpoint + PATH) as reply:
            totals = json.load(reply)
        self._counts = [count for count in totals["counts"] if run_of(count) == run]
        self.calls = [call for call in totals["calls"] if run_called(call["event"]) == run]
        self._reports = reports(place)

    def requests(self, *operations, **which):
        return sum(count["requests"] for count in self._picked("s3", operations, which))

    def units(self, *operations, **which):
        found = Counter()
        for count in self._picked("dynamodb", operations, which):
            found[kind_of(count)] += count["units"]
        return found

    @property
    def billed_requests(self):
        """Requests to Lambda. A large event counts as several."""
        return sum(call["requests"] for call in self.calls)

    def gb_s(self, role):
        return sum(ms * mb for ms, mb in self._of(role)) / Decimal(1024 * 1000)

    def longest_gb_s(self, role, count):
        return heapq.nlargest(count, (Decimal(ms * mb) / (1024 * 1000) for ms, mb in self._of(role)))

    def invocations(self, role):
        return len(self._of(role))

    def _of(self, role):
        ids = [call["request_id"] for call in self.calls if re.search(rf"[-_]{role}:", call["function"])]
        return [report for id in ids for report in self._reports[id]]

    def _picked(self, service, operations, which):
        return [
            count
            for count in self._counts
            if count["service"] == service
            and count["operation"] in operations
            and all(count[key] == value for key, value in which.items())
        ]


RUN = re.compile(r"tenants/[^/]+/runs/([^/]+)/")


def run_of(count):
    """The run of a request: of an object's key, or of an item's scope. The list of live runs has an item for each."""
    _, first, *rest = count["key"]
    if count["service"] == "s3":
        found = RUN.match(first)
        return found and found[1]
    scope = first.split("/")
    return "".join(rest[:1]) if scope[0] in ("live", "budget") else scope[2]


def kind_of(count):
    """The kind of item: live for the list of live runs, else the first part of the item's name."""
    _, scope, *item = count["key"]
    return "live" if scope.startswith("live/") else "".join(item[:1]).split("/")[0]


def reports(place):
    """Billed milliseconds and MB of every attempt at an invocation, by its id."""
    logs, found = place.cloud.client("logs"), defaultdict(list)
    for group in logs.describe_log_groups()["logGroups"]:
        for page in logs.get_paginator("filter_log_events").paginate(logGroupName=group["logGroupName"]):
            for event in page["events"]:
                if event["message"].startswith("REPORT "):
                    figures = dict(part.split(": ", 1) for part in event["message"].split("\t") if ": " in part)
                    billed, memory = (int(figures[name].split()[0]) for name in ("Billed Duration", "Memory Size"))
                    found[figures["REPORT RequestId"]].append((billed, memory))
    return found


def billed(place, run):
    document = json.loads((place.home / "runs" / run / "bill.json").read_text(), parse_float=Decimal)
    return {line["name"]: line["quantity"] for line in document["lines"]}


WRITES, READS = ("PutItem", "UpdateItem", "DeleteItem"), ("GetItem", "BatchGetItem", "Query")
