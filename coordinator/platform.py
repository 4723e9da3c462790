"""The properties of the platform that runs the functions."""

from typing import Literal, Self

import msgspec

from marless.functions.messages.message import Message

LatencyName = Literal["", "aws", "emulated"]
"""Whose latencies pass between coordinator and functions; '' on one machine."""


class Platform(Message, frozen=True, kw_only=True):
    """The properties of a platform that a run relies on. The defaults describe processes on this machine."""

    concurrency: int = 1
    """The number of functions that run concurrently."""
    at_once: int | None = None
    """The most attempts of a detached run in flight; None: the platform queues what is beyond the concurrency."""
    init_limit_ms: int = 0
    """The limit of a start-up, in addition to the time-out."""
    startup_counts_to_timeout: bool = True
    """Whether a function is killed, and billed no more, once start-up and task together reach their limits."""
    sizes_fixed: bool = False
    """Whether functions keep the memory that they were deployed with."""
    bodies_leave_region: bool = False
    """Whether functions log in a region of the cloud, and their answers leave it: both are billed by the byte."""
    items_padded: bool = False
    """Whether the ledger bills what its table keeps beside an item's body, and of a write the larger of both bodies."""
    requests_billed: bool = False
    """Whether storage bills the coordinator's requests to list objects and to check that they are durable."""
    messages_limited: bool = False
    """Whether requests and answers have a largest size."""
    functions_outlive_driver: bool = False
    """Whether functions in flight go on, and store objects, when the process that invoked them has ended."""
    latency: LatencyName = ""
    """Whose latencies the planner counts between coordinator and functions."""
    can_inline: bool = True
    """Whether messages may carry objects, which needs a coordinator process that persists between rounds."""
    cpu_scaling: bool = True
    """Whether durations are measured on whole cores and scaled to the share of a vCPU that a function's memory buys."""
    coordinator_mb: int = 0
    """Memory of a coordinator that is a function, else 0."""
    grace_s: float = 0.0
    """How long, beyond time-outs and start-ups, a detached run waits for attempts without a report."""
    idle_slots_free: bool = True
    """Whether work that is spread over idle slots costs nothing more: no invocation and no request is paid for."""

    def on_lambda(self, latency: LatencyName = "aws") -> Self:
        """With the abilities of deployed functions, a table and a bucket."""
        return msgspec.structs.replace(
            self,
            startup_counts_to_timeout=False,
            sizes_fixed=True,
            bodies_leave_region=True,
            items_padded=True,
            requests_billed=True,
            messages_limited=True,
            functions_outlive_driver=True,
            latency=latency,
            idle_slots_free=False,
        )
