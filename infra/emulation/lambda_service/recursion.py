"""Recursion detection: the trace header, and the number of runs of each function in it.

AWS documentation, "Use Lambda recursive loop detection to prevent infinite loops": a function that has been invoked
about 16 times in one chain of requests is stopped at its next invocation. The chain is carried by the X-Ray trace
header, which an AWS SDK inside a function passes on by itself. How the service counts is not public. Here every
function has an entry of its own in the header's `Lineage`, ``<hash>:<n>``, n being how often it ran earlier in the
chain. So functions that call each other in turns are each counted by their own runs, a chain ends where a caller sends
no header, and only chains of Lambda invocations are seen, not those that go through queues or buckets.
"""

import hashlib
import secrets
import time
from dataclasses import dataclass
from urllib.parse import unquote

# The most runs of one function in one chain; the next one is refused.
MOST_RUNS = 16


@dataclass(frozen=True)
class Trail:
    """The trace header that an invocation hands on, and how often its function ran earlier in the chain."""

    header: str
    runs_before: int

    @property
    def endless(self) -> bool:
        return self.runs_before >= MOST_RUNS


def follow(header: str | None, arn: str) -> Trail:
    """The trail of the next invocation of the function `arn` (unqualified) by a caller who sent `header`, if any."""
    fields = _fields(header or "")
    root = fields.get("Root") or f"1-{int(time.time()):08x}-{secrets.token_hex(12)}"
    runs = _runs(fields.get("Lineage", ""))
    own = hashlib.sha256(arn.encode()).hexdigest()[:8]
    before = runs[own] = runs.get(own, -1) + 1
    hops = "|".join(f"{function}:{count}" for function, count in runs.items())
    sampled = fields.get("Sampled") or "0"
    return Trail(f"Root={root};Parent={secrets.token_hex(8)};Sampled={sampled};Lineage={hops}", before)


def _fields(header: str) -> dict[str, str]:
    # The Python SDK quotes what is not allowed everywhere in a header, '|' among it.
    parts = (part.strip().partition("=") for part in unquote(header).split(";"))
    return {name: value for name, _, value in parts if value}


def _runs(hops: str) -> dict[str, int]:
    """Runs before the last one by function; entries of another form are ignored."""
    entries = (entry.partition(":") for entry in hops.split("|"))
    return {function: int(count) for function, _, count in entries if count.isdecimal()}
