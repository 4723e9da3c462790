"""How tasks that nobody waits for report that they ended, so that the last of them is noticed.

Every task adds a member of a few bytes to a set that at most `FAN` tasks share; the one that completes a set adds a
member to the set above, and the one that completes the topmost set wakes the coordinator. Adding the same member twice
changes nothing, so lost replies and doubled events do no harm; a counter would be wrong after either. Sets stay small
because a table bills a write by the size of the whole item, which with one set for all tasks would grow as the square
of their number.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from itertools import count as natural
from math import ceil
from typing import Annotated, Literal, NamedTuple

import msgspec

from functions.contract import Answer, Failed, FailureKind, ReportTo, Usage
from functions.ports import Completions

# Positions fit in a byte, and a full set of ordinary members in one or two billed units of 1 KB.
FAN = 64
LONGEST_MESSAGE = 400
# What a set's item holds beside its members: its key, the time when it expires, the names of both.
ITEM_BYTES = 128

# What is beyond these nobody measured: a function runs for 15 minutes at most, after its start (Lambda developer guide,
# "Lambda quotas"), and a note that says otherwise would stand on the bill for ever.
Duration = Annotated[int, msgspec.Meta(ge=0, le=20 * 60 * 1000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]


class Note(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """How an attempt ended, as the function itself saw it: what the coordinator meters it by.

    Durations are in milliseconds, `start_ms` the start of the execution environment when this attempt paid for it,
    `peak_mb` in MiB. `kind` and `message` say why there is no answer; '' where the answer is stored.
    """

    attempt: Count
    duration_ms: Duration
    puts: Count = 0
    gets: Count = 0
    bytes_written: Count = 0
    bytes_read: Count = 0
    peak_mb: Count = 0
    start_ms: Duration = 0
    kind: FailureKind | Literal["", "timeout", "crash", "throttled"] = ""
    message: str = ""
    again: bool = False

    @property
    def usage(self) -> Usage:
        """Storage operations of the attempt."""
        return Usage(puts=self.puts, gets=self.gets, bytes_written=self.bytes_written, bytes_read=self.bytes_read)


_ENCODER = msgspec.msgpack.Encoder()
_NOTES = msgspec.msgpack.Decoder(Note)


def note(answer: Answer, duration_ms: float, start_ms: float, peak_mb: float) -> Note:
    """The note on an attempt that ended with `answer`; durations are rounded up, as they are billed."""
    usage = answer.usage
    ended = Note(
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
        return ended
    message = answer.message[:LONGEST_MESSAGE]
    return msgspec.structs.replace(ended, kind=answer.kind, message=message, again=answer.again)


def tell(completions: Completions, address: ReportTo, ended: Note) -> bool:
    """Reports the end of a task; True when all tasks of its ask have ended: whoever hears that wakes the coordinator.

    True again for a report that came before: the first may have died between its write and the wake-up.
    """
    index, count, body = address.index, address.count, _ENCODER.encode(ended)
    for level in natural():
        number, position = divmod(index, FAN)
        members = completions.add(set_name(address.ask, level, number), bytes([position]) + body)
        if len(_positions(members)) < min(FAN, count - number * FAN):
            return False
        if count <= FAN:
            return True
        index, count, body = number, -(-count // FAN), b""
    raise AssertionError("a tree has a root")


class Gathering(NamedTuple):
    """The reports on an ask: notes by index, more than one where an event was delivered twice.

    `updates` are the sizes in bytes that items had after each write for it, `reads` of the items that were read.
    """

    notes: dict[int, list[Note]]
    updates: tuple[int, ...]
    reads: tuple[int, ...]


def complete(completions: Completions, ask: int, count: int) -> bool:
    """Whether all `count` tasks of an ask have ended: one read, of the topmost set."""
    level = 0
    while count > FAN:
        level, count = level + 1, -(-count // FAN)
    return len(_positions(completions.read([set_name(ask, level, 0)])[0])) >= count


def gather(completions: Completions, ask: int, count: int) -> Gathering:
    """What the tasks that have ended reported.

    Whoever may add a member may add any bytes: what is no note is passed over, and its task counts as silent.
    """
    leaves = completions.read([set_name(ask, 0, number) for number in range(-(-count // FAN))])
    notes: dict[int, list[Note]] = {}
    for number, members in enumerate(leaves):
        for member in sorted(members):
            ended = _decoded(member)
            if ended is not None and (index := number * FAN + member[0]) < count:
                notes.setdefault(index, []).append(ended)
    updates = [size for members in leaves for size in _growing(map(len, members))]
    while count > FAN:
        count = -(-count // FAN)
        updates += [size for start in range(0, count, FAN) for size in _growing([1] * min(FAN, count - start))]
    reads = (ITEM_BYTES, *(ITEM_BYTES + sum(map(len, members)) for members in leaves))
    return Gathering(notes, tuple(updates), reads)


def set_name(ask: int, level: int, number: int) -> str:
    """A set's name within its run."""
    return f"{ask}/{level}/{number}"


def _decoded(member: bytes) -> Note | None:
    try:
        return _NOTES.decode(member[1:]) if member and member[0] < FAN else None
    except msgspec.MsgspecError:
        return None


def _growing(members: Iterable[int]) -> Iterator[int]:
    """Sizes of a set's item as members of these sizes are added."""
    return (ITEM_BYTES + size for size in accumulate(members))


def _positions(members: Iterable[bytes]) -> set[int]:
    return {member[0] for member in members if member}
