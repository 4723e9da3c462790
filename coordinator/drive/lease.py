"""Who drives a run: one process, or the cloud; never both.

The ledger's versions alone keep two drivers from spoiling a run. The lease keeps the second from starting at all, from
asking for work that the first has asked for already, and tells who it is.
"""

from collections.abc import Callable

import msgspec

from coordinator.drive.ports import Ledger
from functions.contract import StaleVersion, StorageFault

LEASE = "lease"
CLOUD = "cloud"
# A process that has not renewed its lease for so long is taken for dead.
KEPT_S = 60.0
RENEW_S = 15.0


class LeaseHeld(Exception):
    """Somebody else drives the run; the message says who, for the user."""


class Lease(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """`holder` drives the run: a process, until `until` (seconds since 1970), or `cloud`, until it lets go; '' nobody.

    `stop` asks the cloud to end the run resumably; `problem` is why the cloud let go of a run that it could not drive.
    `resume` is the version of its state at which the cloud is to take up a run that stood still: it is said here, where
    every wake finds it, and no event that is lost, late or forged can say it.
    """

    holder: str = ""
    until: float = 0.0
    stop: bool = False
    problem: str = ""
    resume: int | None = None

    def taken(self, by: str, now: float) -> bool:
        """Whether somebody other than `by` drives the run."""
        return self.holder not in ("", by) and (self.holder == CLOUD or now < self.until)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Lease)


def read(ledger: Ledger) -> tuple[Lease, int]:
    """The lease as it stands and its version; nobody's where there is none. Raises `StorageFault`."""
    record = ledger.load(LEASE)
    try:
        return (_DECODER.decode(record.body), record.version) if record else (Lease(), 0)
    except msgspec.MsgspecError as error:
        raise StorageFault(f"who drives the run was written by another version of marless: {error}") from error


def write(ledger: Ledger, lease: Lease, version: int) -> int:
    """Replaces version `version` of the lease; raises `StaleVersion` when somebody was quicker."""
    return ledger.commit(LEASE, _ENCODER.encode(lease), version)


def take(ledger: Ledger, holder: str, now: float) -> int:
    """Makes the process `holder` the driver and returns the lease's version; raises `LeaseHeld`."""
    lease, version = read(ledger)
    if lease.taken(holder, now):
        raise LeaseHeld(_who(lease))
    return _written(ledger, Lease(holder=holder, until=now + KEPT_S), version)


def hand_over(ledger: Ledger, version: int, resume: int | None) -> int:
    """Gives the run to the cloud, by the process that took version `version` of the lease; raises `LeaseHeld`."""
    return _written(ledger, Lease(holder=CLOUD, resume=resume), version)


def release(ledger: Ledger, holder: str) -> None:
    """Lets go of the run, if `holder` has it."""
    lease, version = read(ledger)
    if lease.holder == holder:
        write(ledger, Lease(), version)


def clear(ledger: Ledger, problem: str) -> None:
    """Takes the run away from whoever drives it; nobody commits any harm: a driver notices at its next write."""
    record = ledger.load(LEASE)
    write(ledger, Lease(problem=problem), record.version if record else 0)


def ask_to_stop(ledger: Ledger) -> bool:
    """Asks the cloud to stop driving; False when it does not drive."""
    lease, version = read(ledger)
    if lease.holder != CLOUD:
        return False
    write(ledger, msgspec.structs.replace(lease, stop=True), version)
    return True


class Keeper:
    """A process's hold on a run, renewed as time passes."""

    def __init__(self, ledger: Ledger, holder: str, clock: Callable[[], float]) -> None:
        self._ledger, self._holder, self._clock = ledger, holder, clock
        self._version = take(ledger, holder, clock())
        self._renewed = clock()

    def renew(self) -> None:
        """To be called often; writes every `RENEW_S` seconds. Raises `StaleVersion` when the run was taken over."""
        now = self._clock()
        if now - self._renewed >= RENEW_S:
            lease = Lease(holder=self._holder, until=now + KEPT_S)
            self._version = write(self._ledger, lease, self._version)
            self._renewed = now

    def release(self) -> None:
        """Lets go."""
        release(self._ledger, self._holder)


def _written(ledger: Ledger, lease: Lease, version: int) -> int:
    try:
        return write(ledger, lease, version)
    except StaleVersion as error:
        raise LeaseHeld("another process has just begun to drive this run") from error


def _who(lease: Lease) -> str:
    if lease.holder == CLOUD:
        return "this run is driven in the cloud; `marless watch` shows it and `marless stop` ends it"
    return f"this run is being driven by {lease.holder}"
