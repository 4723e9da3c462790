"""The events of a run, and the conversion of functions' answers to events. `apply` applies them to the state."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from marless.coordinator.core.round_graph import WorkAttempt
from marless.coordinator.core.state import Status
from marless.coordinator.pricing.bill import Meter
from marless.functions import keys
from marless.functions.encoding import JsonDecoder, Undecodable
from marless.functions.messages.exchange import Answer, Done, Report

_ANSWERS = JsonDecoder[Answer](Answer)


@dataclass(frozen=True)
class Dispatched:
    """These attempts are about to start, `seconds` of training after the last event that counts seconds. In a detached
    run each attempt is one of the `asks`, by work name."""

    tasks: tuple[WorkAttempt, ...]
    seconds: float = 0.0
    asks: Mapping[str, str] = field(default_factory=dict)


class AttemptEnded(msgspec.Struct, frozen=True, gc=False):
    """A function ended. `work` is '' for an attempt of an earlier round. `answer` is the decoded body, if any."""

    work: str
    report: Report
    answer: Answer | None


def decode_answer(report: Report) -> tuple[Report, Answer | None]:
    """Return the report with its answer, or None. An unreadable answer counts as a crash, because functions run foreign
    environments that may write anything."""
    if report.outcome != "answered":
        return report, None
    try:
        answer = _ANSWERS.decode(report.body, "its answer")
    except Undecodable as error:
        return replace(report, outcome="crash", detail=str(error)), None
    objects = answer.objects if isinstance(answer, Done) else {}
    if not all(keys.is_made_by(report.id, kind, ref.key) for kind, ref in objects.items()):
        return replace(report, outcome="crash", detail="its answer names an object that its task did not make"), None
    return report, answer


@dataclass(frozen=True)
class Reported:
    """Functions ended, in this order."""

    attempts: tuple[AttemptEnded, ...]


@dataclass(frozen=True)
class Advanced:
    """The phase is complete, `seconds` of training after the last event that counts seconds."""

    seconds: float


@dataclass(frozen=True)
class Elapsed:
    """Training took `seconds` since the last event that counts seconds, and no task begins or ends."""

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
    """A new driver took over. Reports of waiting attempts will not arrive."""


@dataclass(frozen=True)
class Metered:
    """The coordinator itself used so much: it read or wrote the ledger, storage or completion sets, or ran."""

    meter: Meter


@dataclass(frozen=True)
class Committed:
    """The ledger is about to replace a body of `before` bytes by one of `size`."""

    size: int
    before: int = 0


@dataclass(frozen=True)
class Checkpointed:
    """All objects of this state would survive a power loss."""


@dataclass(frozen=True)
class Abandoned:
    """The proposed team is abandoned, for the reason that `event` names."""

    event: str


@dataclass(frozen=True)
class Lost:
    """The attempts at `works` did not report before their deadline."""

    works: tuple[str, ...]


Event = (
    Dispatched
    | Reported
    | Advanced
    | Elapsed
    | Finishing
    | Stopped
    | Resumed
    | Metered
    | Committed
    | Checkpointed
    | Abandoned
    | Lost
)
