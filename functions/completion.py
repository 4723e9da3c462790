"""Completion reports of asynchronous tasks: the last of them wakes the coordinator.

Every task adds a member of a few bytes to a set that at most `FAN` tasks share. The task that completes a set adds a
member to the set above it, and the task that completes the topmost set wakes the coordinator. Adding the same member
twice has no effect, so lost replies and duplicate events are harmless. A counter would be wrong after either. Sets stay
small because a table bills a write by the size of the whole item. With one set for all tasks the cost would grow as the
square of their number.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from itertools import count as natural
from math import ceil
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import msgspec

from marless.functions.encoding import MessagePackDecoder, Undecodable, to_message_pack
from marless.functions.messages.exchange import Answer, Failed, FailureKind
from marless.functions.messages.order import FAN, SET_BYTES, ReportTo
from marless.functions.messages.usage import Usage

if TYPE_CHECKING:
    from marless.functions.storage_port import Completions

LONGEST_MESSAGE = 400

# Larger values are refused because no function can have measured them. A function runs for at most 15 minutes after its
# start (Lambda developer guide, "Lambda quotas"). A false report would stay on the bill.
Duration = Annotated[int, msgspec.Meta(ge=0, le=20 * 60 * 1000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class CompletionReport(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The outcome of an attempt, measured by the function itself. The coordinator meters the attempt with it."""

    attempt: Count
    duration_ms: Duration
    puts: Count = 0
    gets: Count = 0
    bytes_written: Count = 0
    bytes_read: Count = 0
    # In MiB.
    peak_mb: Count = 0
    # Start of the execution environment when this attempt paid for it.
    start_ms: Duration = 0
    # The reason for a missing answer. "" when the answer is stored.
    kind: FailureKind | Literal["", "timeout", "crash", "throttled"] = ""
    message: str = ""
    again: bool = False

    @property
    def usage(self) -> Usage:
        """Storage operations of the attempt."""
        return Usage(puts=self.puts, gets=self.gets, bytes_written=self.bytes_written, bytes_read=self.bytes_read)


_DECODER = MessagePackDecoder(CompletionReport)


def completion_report(answer: Answer, duration_ms: float, start_ms: float, peak_mb: float) -> CompletionReport:
    """The report of an attempt that ended with `answer`. Durations are rounded up, as they are billed."""
    usage = answer.usage.cold
    report = CompletionReport(
        attempt=answer.attempt,
        duration_ms=ceil(duration_ms),
        puts=usage.puts,
        gets=usage.gets,
        bytes_written=usage.bytes_written,
        bytes_read=usage.bytes_read,
        peak_mb=ceil(peak_mb),
        start_ms=ceil(start_ms),
    )
    if not isinstance(answer, Failed):
        return report
    message = answer.message[:LONGEST_MESSAGE]
    return msgspec.structs.replace(report, kind=answer.kind, message=message, again=answer.again)


def report_completion(completions: "Completions", address: ReportTo, report: CompletionReport) -> bool:
    """Reports the end of a task.

    Returns True when all tasks of its ask have ended, and the caller then wakes the coordinator. A repeated report
    returns True again: the first function may have died between its write and the wake-up.
    """
    index, count, body = address.index, address.count, to_message_pack(report)
    for level in natural():
        number, position = divmod(index, FAN)
        members = completions.add(set_name(address.ask, level, number), bytes([position]) + body)
        if len(_positions(members)) < min(FAN, count - number * FAN):
            return False
        if count <= FAN:
            return True
        index, count, body = number, -(-count // FAN), b""
    raise AssertionError("a tree has a root")


class GatheredReports(NamedTuple):
    """The completion reports of an ask and the item sizes that its table operations are billed by."""

    # By the task's index. More than one where an event was delivered twice.
    reports: dict[int, list[CompletionReport]]
    # Item size in bytes after each write.
    updates: tuple[int, ...]
    # Size in bytes of each item that was read.
    reads: tuple[int, ...]


class TopSet(NamedTuple):
    """The topmost set of an ask: whether all its tasks have ended, and the bytes of the item that was read."""

    is_complete: bool
    size: int


def read_top_set(completions: "Completions", ask: str, count: int) -> TopSet:
    """Reads the topmost set of an ask of `count` tasks."""
    level = 0
    while count > FAN:
        level, count = level + 1, -(-count // FAN)
    [members] = completions.read([set_name(ask, level, 0)])
    return TopSet(len(_positions(members)) >= count, _item_size(members))


def gather_reports(completions: "Completions", ask: str, count: int) -> GatheredReports:
    """The reports of all tasks that have ended.

    A member may hold any bytes. If it is no report, it is ignored, and its task counts as unreported.
    """
    leaves = completions.read([set_name(ask, 0, number) for number in range(-(-count // FAN))])
    reports: dict[int, list[CompletionReport]] = {}
    for number, members in enumerate(leaves):
        for member in sorted(members):
            report = _decode_report(member)
            if report is not None and (index := number * FAN + member[0]) < count:
                reports.setdefault(index, []).append(report)
    updates = [size for members in leaves for size in _item_sizes(map(len, members))]
    while count > FAN:
        count = -(-count // FAN)
        updates += [size for start in range(0, count, FAN) for size in _item_sizes([1] * min(FAN, count - start))]
    return GatheredReports(reports, tuple(updates), tuple(map(_item_size, leaves)))


def set_name(ask: str, level: int, number: int) -> str:
    """The set's name within its run."""
    return f"{ask}/{level}/{number}"


def _decode_report(member: bytes) -> CompletionReport | None:
    try:
        return _DECODER.decode(member[1:]) if member and member[0] < FAN else None
    except Undecodable:
        return None


def _item_size(members: Iterable[bytes]) -> int:
    return SET_BYTES + sum(map(len, members))


def _item_sizes(members: Iterable[int]) -> Iterator[int]:
    return (SET_BYTES + size for size in accumulate(members))


def _positions(members: Iterable[bytes]) -> set[int]:
    return {member[0] for member in members if member}
