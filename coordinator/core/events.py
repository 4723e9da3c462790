"""The events of a run; `apply` defines what each does to the state."""

from dataclasses import dataclass

import msgspec

from coordinator.core.round_graph import Attempt
from coordinator.core.state import Status
from coordinator.pricing.bill import Meter
from functions.contract import Answer, Report, Usage


@dataclass(frozen=True)
class Dispatched:
    """These attempts are about to start, `seconds` of training after the last event that counts seconds."""

    tasks: tuple[Attempt, ...]
    seconds: float = 0.0


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A function ended. `work` is '' for an attempt of an earlier round; `answer` is the decoded body, None when it has
    none."""

    work: str
    report: Report
    answer: Answer | None


@dataclass(frozen=True)
class Reported:
    """Functions ended, in this order."""

    ended: tuple[Ended, ...]


@dataclass(frozen=True)
class Advanced:
    """The phase is complete, `seconds` of training after the last event that counts seconds."""

    seconds: float


@dataclass(frozen=True)
class Finishing:
    """No more rounds."""

    reason: str


@dataclass(frozen=True)
class Stopped:
    """The run ended, for good or until it is resumed."""

    status: Status
    reason: str


@dataclass(frozen=True)
class Resumed:
    """A new driver took over; reports of waiting attempts will not arrive."""


@dataclass(frozen=True)
class Committed:
    """The ledger is about to replace a body of `before` bytes by one of `size`."""

    size: int
    before: int = 0


@dataclass(frozen=True)
class Loaded:
    """A body of `size` bytes was read from the ledger; 0 when there was none."""

    size: int


@dataclass(frozen=True)
class Checkpointed:
    """All objects of this state would survive a power loss."""


@dataclass(frozen=True)
class Persisted:
    """The coordinator itself stored objects that had travelled inside messages, read headers of objects, or listed keys
    in `lists` requests."""

    usage: Usage
    lists: int = 0


@dataclass(frozen=True)
class Repeated:
    """The coordinator's requests were sent again because their answers did not come; `meter` is the most they took."""

    meter: Meter


@dataclass(frozen=True)
class Abandoned:
    """The proposed team is abandoned, for the reason that `event` names."""

    event: str


@dataclass(frozen=True)
class Lost:
    """The attempts at `works` did not report before their deadline."""

    works: tuple[str, ...]


@dataclass(frozen=True)
class CoordinatorBilled:
    """The coordinator ran as a function for so many milliseconds since it was last billed, and read bodies of `loads`
    bytes before it took up the run."""

    duration_ms: float
    init_ms: float
    loads: tuple[int, ...] = ()


@dataclass(frozen=True)
class CompletionsBilled:
    """Reports were read from completion sets, or lines of rounds are about to be written."""

    # Bytes of the items that were written, and of those that were read.
    updates: tuple[int, ...]
    reads: tuple[int, ...]
    # Storage operations of reading the answers.
    usage: Usage
    # Bytes of the events that were accepted.
    events: tuple[int, ...] = ()


Event = (
    Dispatched
    | Reported
    | Advanced
    | Finishing
    | Stopped
    | Resumed
    | Committed
    | Loaded
    | Checkpointed
    | Persisted
    | Repeated
    | Abandoned
    | Lost
    | CoordinatorBilled
    | CompletionsBilled
)
