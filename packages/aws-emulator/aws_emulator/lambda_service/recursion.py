"""Recursion detection: the trace header, and the number of runs of each function in it.

A function that has been invoked about 16 times in one chain of requests is stopped at its next invocation. Source: AWS
documentation, "Use Lambda recursive loop detection to prevent infinite loops". The X-Ray trace header identifies the
chain. An AWS SDK inside a function forwards it. How the service counts is not public. Here every function has an entry
``<hash>:<n>`` in the header's `Lineage`, where n is the number of its earlier runs in the chain. So functions that call
each other are counted separately, and a chain ends at a caller without a header. Only chains of Lambda invocations are
detected, without queues and buckets.
"""

import hashlib
import secrets
import time
from dataclasses import dataclass
from urllib.parse import unquote

# The maximum number of runs of one function in one chain. The next run is refused.
MOST_RUNS = 16


@dataclass(frozen=True)
class Trail:
    """The trace header that an invocation forwards, and the number of its function's earlier runs in the chain."""

    header: str
    runs_before: int

    @property
    def endless(self) -> bool:
        return self.runs_before >= MOST_RUNS


def follow(header: str | None, arn: str) -> Trail:
    """The trail of the next invocation of the function `arn` (unqualified), given the caller's `header`, if any."""
    fields = _fields(header or "")
    root = fields.get("Root") or f"1-{int(time.time()):08x}-{secrets.token_hex(12)}"
    runs = _runs(fields.get("Lineage", ""))
    function_hash = hashlib.sha256(arn.encode()).hexdigest()[:8]
    before = runs[function_hash] = runs.get(function_hash, -1) + 1
    hops = "|".join(f"{function}:{count}" for function, count in runs.items())
    sampling = fields.get("Sampled") or "0"
    return Trail(f"Root={root};Parent={secrets.token_hex(8)};Sampled={sampling};Lineage={hops}", before)


def caller(header: str | None) -> str:
    """The invocation that sent `header` along, as its trail's header names it. '' for a caller that is no function."""
    return _fields(header or "").get("Parent", "")


def _fields(header: str) -> dict[str, str]:
    # The Python SDK percent-encodes some characters of the header, such as '|'.
    parts = (part.strip().partition("=") for part in unquote(header).split(";"))
    return {name: value for name, _, value in parts if value}


def _runs(hops: str) -> dict[str, int]:
    """The counts of `Lineage` by function hash. Malformed entries are ignored."""
    entries = (entry.partition(":") for entry in hops.split("|"))
    return {function: int(count) for function, _, count in entries if count.isdecimal()}
