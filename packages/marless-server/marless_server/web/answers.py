"""The types of answers of the API. Its description is made from them. Times are UTC in ISO format, '' for never."""

from typing import Any

import msgspec

from marless.coordinator.core.state import RoundLine
from marless_server.store.runs import RunState


class Rights(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of an owner. `code`: configurations may name code. `admin`: the owner may change owners.

    `at_once`: the most runs that train at once.
    """

    code: bool
    admin: bool
    weight: float
    at_once: int | None


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """The most use of a day and of the disk, and the days until old runs are deleted. null: no limit."""

    slot_seconds_a_day: float | None
    dollars_a_day: float | None
    disk_gb: float | None
    keep_days: float | None


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The version of the API, and the holder of the token."""

    version: str
    owner: str
    rights: Rights
    quotas: Quotas


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The forecast of runs: dollars and seconds of training of all, and when the first begins and the last ends.

    null: not known. `from` is the earlier run with these settings.
    """

    cap_dollars: float | None
    dollars: float | None
    seconds: float | None
    begins_in_s: float | None
    ends_in_s: float | None
    source: str | None = msgspec.field(name="from")
    text: str


class CheckedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration that may be submitted."""

    task: str
    algorithm: str
    price: Price


class Run(RunState, frozen=True, kw_only=True):
    """A run. `score` is the mean return of the last evaluation. `served_s` are seconds of slots.

    `stops`: it stops after the tasks in flight. `place` and `waits_for` are null for a run that does not wait.
    """

    stops: bool
    place: int | None
    waits_for: str | None


class SubmittedRun(Run, frozen=True, kw_only=True):
    """A run that was submitted, with its forecast."""

    price: Price


class DetailedRun(Run, frozen=True, kw_only=True):
    """A run with its configuration, and the limits that replace limits of the configuration."""

    config: dict[str, Any]
    limits: list[str]


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a list. `cursor` asks for the next part. It is null at the end."""

    runs: list[Run]
    cursor: int | None


class CheckedStudy(msgspec.Struct, frozen=True, kw_only=True):
    """A study that may be submitted, with the number of its runs."""

    runs: int
    price: Price


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that were submitted together."""

    id: str
    runs: list[Run]


class SubmittedStudy(Study, frozen=True, kw_only=True):
    """A study that was submitted, with its forecast."""

    price: Price


class RoundPage(msgspec.Struct, frozen=True, kw_only=True):
    """Rounds of a run. `after` asks for the next part. It is null at the end."""

    rounds: list[RoundLine]
    after: int | None


class SlotUse(msgspec.Struct, frozen=True, kw_only=True):
    """A slot that serves a task. Of other owners' tasks, `run` and `work` are null."""

    owner: str
    run: str | None
    work: str | None
    seconds: float


class QueuePlace(msgspec.Struct, frozen=True, kw_only=True):
    """A run that waits, with the reason. Of other owners' runs, `run` is null."""

    place: int
    owner: str
    run: str | None
    waits_for: str


class OwnerUse(msgspec.Struct, frozen=True, kw_only=True):
    """An owner: the runs that train and wait, and the use of today (UTC)."""

    owner: str
    weight: float
    trains: int
    waits: int
    slot_seconds_today: float
    dollars_today: float


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """The pool. `places`: the most runs that train at once. `ends`: the server ends after the tasks in flight."""

    slots: int
    places: int
    ends: bool
    busy: list[SlotUse]
    queue: list[QueuePlace]
    owners: list[OwnerUse]


class ProblemDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that is refused (RFC 9457). `key` is the setting, parameter or header with the error."""

    type: str
    title: str
    status: int
    detail: str
    key: str = ""
