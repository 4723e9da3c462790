"""The record of an attempt that ended: a line of attempts.jsonl, from which timelines and simulations are made."""

from typing import Literal

from functions.contract import Message, Usage


class AttemptRecord(Message, frozen=True, kw_only=True):
    """An attempt, from its request to its report."""

    round: int
    # The name of its work item, the number of the attempt, and the function that served it.
    work: str
    attempt: int = 0
    function: str
    # The kind of task, and what its duration grows with: rollouts, rows of data, or episodes.
    kind: str
    size: float
    # How many functions could run at once.
    slots: int = 1
    # When it was asked for and when its report arrived, in seconds of the coordinator's clock.
    asked: float
    ended: float
    # As the platform measured: waiting for a slot where it says so, start-up and run time. The rest was transfer, and
    # waiting elsewhere.
    queued_ms: float = 0.0
    init_ms: float = 0.0
    duration_ms: float = 0.0
    outcome: Literal["answered", "failed", "timeout", "crash", "throttled"] = "answered"
    usage: Usage = Usage()
