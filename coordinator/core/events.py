"""What can happen to a run; `apply` says what it does to the state."""

from dataclasses import dataclass

from coordinator.core.state import Status
from coordinator.core.tasks import PlannedTask
from functions.contract import Answer, Report, Usage


@dataclass(frozen=True)
class Dispatched:
    """These attempts were decided on."""

    tasks: tuple[PlannedTask, ...]


@dataclass(frozen=True)
class Reported:
    """A function ended. `answer` is its decoded body, None when it gave none."""

    work: str
    report: Report
    answer: Answer | None


@dataclass(frozen=True)
class Advanced:
    """The phase is complete; `seconds` of training passed since the last one was."""

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
    """A new driver took over: nobody will hear of the attempts that were waiting."""


@dataclass(frozen=True)
class Committed:
    """The ledger is about to take a body of `size` bytes in the place of one of `before`."""

    size: int
    before: int = 0


@dataclass(frozen=True)
class Loaded:
    """The ledger gave a body of `size` bytes; 0 when it had none."""

    size: int


@dataclass(frozen=True)
class Checkpointed:
    """All that this state refers to would survive a power loss."""


@dataclass(frozen=True)
class Persisted:
    """The coordinator itself stored objects that had travelled inside messages, looked for those that it keeps, or
    listed keys in `lists` requests."""

    usage: Usage
    lists: int = 0


@dataclass(frozen=True)
class Abandoned:
    """The proposed team is not looked at further, for the reason that `event` names."""

    event: str


@dataclass(frozen=True)
class Lost:
    """The attempts at `works` should have ended long ago, and nobody has heard of them."""

    works: tuple[str, ...]


@dataclass(frozen=True)
class CoordinatorBilled:
    """The coordinator itself ran as a function, for so many milliseconds since it was last billed, and read bodies of
    `loads` bytes before it took the run up."""

    duration_ms: float
    init_ms: float
    loads: tuple[int, ...] = ()


@dataclass(frozen=True)
class CompletionsBilled:
    """Reports were read from completion sets: `updates` are the sizes of the items that were written for them, `reads`
    of those that were read, in bytes; `usage` is what reading the answers took. Or lines of rounds are about to be
    written: these are `updates` too."""

    updates: tuple[int, ...]
    reads: tuple[int, ...]
    usage: Usage


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
    | Abandoned
    | Lost
    | CoordinatorBilled
    | CompletionsBilled
)
