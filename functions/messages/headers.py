"""The headers of stored objects."""

from marless.functions.messages.exchange import Done
from marless.functions.messages.message import Message
from marless.functions.messages.usage import CallTime, CallUse

SCHEMA = 1


class Origin(Message, frozen=True, kw_only=True):
    """Where the rollouts of one round come from."""

    round: int
    """The round that they were collected in, counted from 0."""
    policies: str = ""
    """The hash of the policies that they were played with (`marless.functions.data.origins`), of all groups and fixed
    opponents; '' for rollouts of a dataset."""
    opponents: str = ""
    """In a match, the hash of the policies of the agents that played by those of an earlier round, if they have
    any."""
    dataset: str = ""
    """The hash of the dataset's object, for rollouts that were read from it."""


class TaskHeader(Message, frozen=True, kw_only=True, omit_defaults=False):
    """The header of every stored object: the task that wrote it and, on the task's last object, its answer."""

    schema: int = SCHEMA
    """The version of the format."""
    task: str
    """The id of the task."""
    done: Done | None = None
    """The task's answer; None on all its objects but the last."""
    origins: tuple[Origin, ...] = ()
    """Of the trajectories of each round that the object holds, oldest first; empty for other objects."""


class CallsHeader(Message, frozen=True, kw_only=True):
    """The header of the object with the actions of a task, which stands beside those with its results: what follows
    from time is not in these."""

    schema: int = SCHEMA
    """The version of the format."""
    task: str
    """The id of the task."""
    attempt: int
    """The attempt that asked them."""
    use: dict[str, CallUse]
    """As `Usage.actions`."""
    actions: tuple[CallTime, ...] = ()
    """As `Done.actions`."""
