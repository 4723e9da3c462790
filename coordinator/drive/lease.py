"""The lease of a run: either one process drives it or the cloud.

The ledger's versions alone protect a run from two drivers. The lease keeps the second from starting at all and from
dispatching work twice, and names the first to the user.
"""

import math
from collections.abc import Callable

import msgspec

from marless.coordinator.drive.ports import Ledger
from marless.functions.encoding import JsonDecoder, Undecodable, to_json
from marless.functions.errors import StaleVersion, StorageFault

LEASE = "lease"
CLOUD = "cloud"
# A process that has not renewed its lease for so long counts as dead.
KEPT_S = 60.0
RENEW_S = 15.0


class LeaseHeld(Exception):
    """Another driver holds the lease. The message names it for the user."""


Ended = Callable[[str], bool]
"""Whether the process of this address has ended, as far as this process can tell; see `own_process.has_ended`."""


def nobody_knows(process: str) -> bool:
    """Return False: a process of the cloud cannot know whether processes of other machines run."""
    return False


class Lease(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The driver of a run."""

    # A process, `cloud`, or '' without a holder.
    holder: str = ""
    # Where that process is, so that others on its machine can tell when it has ended. '' if it is unknown.
    process: str = ""
    # When a process's lease expires, in seconds since 1970. The cloud's lease lasts until it is released.
    until: float = 0.0
    # Asks the cloud to end the run resumably.
    stop: bool = False
    # Why the cloud released a run that it could not drive.
    problem: str = ""
    # The state's version that makes the cloud resume a paused run. It is in the lease because every wake reads the
    # lease, whereas an event may be lost, late or forged.
    resume: int | None = None

    def is_taken(self, by: str, now: float, has_ended: Ended = nobody_knows) -> bool:
        """Return whether a driver other than `by` holds the lease, and is alive as far as `has_ended` knows."""
        if self.holder in ("", by):
            return False
        return self.holder == CLOUD or (now < self.until and not has_ended(self.process))


_DECODER = JsonDecoder(Lease)


def read(ledger: Ledger) -> tuple[Lease, int]:
    """Return the current lease and its version. Before the first lease, it has no holder. Raises `StorageFault`."""
    record = ledger.load(LEASE)
    try:
        return (_DECODER.decode(record.body), record.version) if record else (Lease(), 0)
    except Undecodable as error:
        raise StorageFault(f"who drives the run was written by another version of marless: {error}") from error


def write(ledger: Ledger, lease: Lease, version: int) -> int:
    """Replace version `version` of the lease. Raises `StaleVersion` if another writer was quicker."""
    return ledger.commit(LEASE, to_json(lease), version)


def take(
    ledger: Ledger, holder: str, clock: Callable[[], float], process: str = "", has_ended: Ended = nobody_knows
) -> int:
    """Make process `holder`, located at `process`, the driver. Returns the lease's version or raises `LeaseHeld`."""
    lease, version = read(ledger)
    now = clock()  # a ledger knows its clock once it was read
    if lease.is_taken(holder, now, has_ended):
        raise LeaseHeld(_describe_holder(lease, now))
    return _write_or_refuse(ledger, Lease(holder=holder, process=process, until=now + KEPT_S), version)


def hand_over(ledger: Ledger, version: int, resume: int | None) -> int:
    """Give the lease, which the process took at `version`, to the cloud. Raises `LeaseHeld`."""
    return _write_or_refuse(ledger, Lease(holder=CLOUD, resume=resume), version)


def release(ledger: Ledger, holder: str) -> None:
    """Releases the lease if `holder` has it."""
    lease, version = read(ledger)
    if lease.holder == holder:
        write(ledger, Lease(), version)


def clear(ledger: Ledger, problem: str) -> None:
    """Takes the lease from any driver, which notices at its next write, before it can do harm."""
    record = ledger.load(LEASE)
    write(ledger, Lease(problem=problem), record.version if record else 0)


def ask_to_stop(ledger: Ledger) -> bool:
    """Ask the cloud to stop driving. Returns False if it does not drive."""
    lease, version = read(ledger)
    if lease.holder != CLOUD:
        return False
    write(ledger, msgspec.structs.replace(lease, stop=True), version)
    return True


class Keeper:
    """A process's lease on a run, renewed as time passes."""

    def __init__(
        self,
        ledger: Ledger,
        holder: str,
        clock: Callable[[], float],
        process: str = "",
        has_ended: Ended = nobody_knows,
    ) -> None:
        self._ledger, self._holder, self._process, self._clock = ledger, holder, process, clock
        self._version = take(ledger, holder, clock, process, has_ended)
        self._renewed = clock()

    def renew(self) -> None:
        """Call it often: it writes every `RENEW_S` seconds. Raises `StaleVersion` when another driver took over."""
        now = self._clock()
        if now - self._renewed >= RENEW_S:
            lease = Lease(holder=self._holder, process=self._process, until=now + KEPT_S)
            self._version = write(self._ledger, lease, self._version)
            self._renewed = now

    def release(self) -> None:
        """Releases the lease."""
        release(self._ledger, self._holder)


def _write_or_refuse(ledger: Ledger, lease: Lease, version: int) -> int:
    try:
        return write(ledger, lease, version)
    except StaleVersion as error:
        raise LeaseHeld("another process has just begun to drive this run") from error


def _describe_holder(lease: Lease, now: float) -> str:
    if lease.holder == CLOUD:
        return "this run is driven in the cloud; `marless status --follow` shows it and `marless stop` ends it"
    wait = f"if that has ended, try again in {max(1, math.ceil(lease.until - now))} s"
    return f"this run is being driven by {lease.holder}; {wait}"
