"""What the platform reports of an invocation."""

from typing import Literal

from marless.functions.messages.message import Message
from marless.functions.messages.usage import CallTime, CallUse


class Report(Message, frozen=True, kw_only=True):
    """The outcome of one invocation, measured by the platform (its REPORT line)."""

    id: str
    """The task's, as in its address."""
    attempt: int
    """The attempt that ended."""
    function: str
    """The name of the function."""
    outcome: Literal["answered", "timeout", "crash", "throttled", "withdrawn"]
    """How the invocation ended. `withdrawn`: it was still waiting for a worker when the run was told to stop."""
    body: bytes = b""
    """An encoded `Answer` when `outcome` is `answered`."""
    duration_ms: float = 0.0
    """Milliseconds on this machine."""
    init_ms: float = 0.0
    """Start of the execution environment when this invocation paid for it."""
    queued_ms: float = 0.0
    """How long it waited for a slot, where the platform says so; never billed."""
    peak_mb: float = 0.0
    """The most memory it used, MB."""
    detail: str = ""
    """Why it did not answer, if it did not."""
    remarks: tuple[str, ...] = ()
    """What happened to its process, for the run's output."""
    call_use: dict[str, CallUse] = {}
    """What the attempt used of resources, where the platform knows and no answer says: those of workers that died."""
    actions: tuple[CallTime, ...] = ()
    """The actions of such an attempt."""

    @property
    def has_begun(self) -> bool:
        """Whether the attempt may have run; one that has not costs nothing."""
        return self.outcome not in ("throttled", "withdrawn")
