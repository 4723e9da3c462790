"""The common fields of all tasks."""

from msgspec import Struct, UnsetType, field

from marless.functions.encoding import own_format, to_json
from marless.functions.messages.message import Message, Ref

# The most tasks that share a set of completion reports. A position in a set fits in a byte, and a full set of ordinary
# members in two write capacity units of 1 KB.
FAN = 64
# Bytes of a set's item in addition to its members: its key, its expiry time and the names of both attributes.
SET_BYTES = 128


class ReportTo(Message, frozen=True, kw_only=True):
    """The address of a task's completion report if no caller waits for its answer, see
    `marless.functions.completion`."""

    ask: str
    """Name of the set of tasks that are awaited together, unique in the run."""
    index: int
    """Number of this task in the set."""
    count: int
    """The number of tasks in the set."""
    coordinator: str
    """Name of the function to wake when all of them have ended."""


class Address(Message, frozen=True, kw_only=True):
    """A task's place in its run, the same for every attempt."""

    id: str
    """`<run>/000007/sample/00000-00003`."""
    run: str
    """The run's name."""
    round: int
    """The round's number."""
    output: str
    """Key prefix of its objects."""
    seed: int
    """The run's seed, from which the task's random numbers follow."""


class ResourceRef(Message, frozen=True, kw_only=True):
    """A resource that a task's environments may ask by its name. The server of the resource knows its settings."""

    identity: str
    """The hash of what its answers follow from, beside the question."""
    keep: bool = False
    """Whether answers are objects of the run."""


class LanguageModel(Message, frozen=True, kw_only=True):
    """A frozen language model, and the size of the parts that groups learn: differences of low `rank` to the weights of
    its topmost `layers`."""

    base: Ref
    """The model's object. It may be of any size, so who reads it maps its file."""
    rank: int
    """The largest rank of a difference."""
    layers: int
    """How many layers have one."""


class Order(Message, frozen=True, kw_only=True):
    """The common fields of all tasks: the address, and how the attempt is served."""

    address: Address
    """Which task it is."""
    format_version: int | UnsetType = field(default_factory=own_format)
    """See `marless.functions.encoding`."""
    attempt: int = 0
    """The attempt's number, from 0."""
    timeout_s: float = 0.0
    """Time limit of this attempt."""
    inline_objects: bool = False
    """Whether the objects of the answer travel in its message instead of through storage."""
    inlined: dict[str, bytes] = {}
    """Objects by key that this message holds."""
    report_to: ReportTo | None = None
    """If set, the whole answer is stored, because no caller waits for it."""
    resources: dict[str, ResourceRef] = {}
    """What the task's environments may ask, by name; none where the task makes no environment."""
    model: LanguageModel | None = None
    """What agents speak by; None for tasks of others."""

    def reads(self) -> tuple[Ref, ...]:
        """All objects that the task reads. An object that it reads twice is listed twice.

        The bill, the cap, estimates, the pool and inlined objects all take reads from here.
        """
        return ()

    def reads_from_storage(self) -> tuple[Ref, ...]:
        """The objects that the task reads from storage if its process has kept none."""
        return tuple(ref for ref in self.reads() if ref.key not in self.inlined)

    def writes(self) -> tuple[str, ...]:
        """The kinds of the objects that the task stores, in this order. The header of the last holds its answer."""
        return ()

    def continued_episodes(self) -> tuple[Ref, ...]:
        """The unfinished episodes that the task continues. A process that has not written them may replay them."""
        return ()

    def sampled_rollouts(self) -> int:
        """The number of rollouts that the task collects and another task learns from."""
        return 0

    def gpus(self) -> int:
        """The number of GPUs that the task computes on."""
        return 0


class Attempt(Struct, frozen=True, gc=False):
    """One attempt at a task, which an invoker starts. It carries its needs, so no pool decodes a request."""

    function: str
    """The name of the function that serves it: 'actor', 'learner', 'evaluator'."""
    request: Order
    """The request, with the number and the time limit of this attempt."""

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.request.address.id

    @property
    def number(self) -> int:
        """The attempt's number, from 0."""
        return self.request.attempt

    @property
    def timeout_s(self) -> float:
        """The time limit, in seconds."""
        return self.request.timeout_s

    @property
    def output(self) -> str:
        """The key prefix of the objects that the task stores."""
        return f"{self.request.address.output}."

    def body(self) -> bytes:
        """Encode the request as JSON."""
        return to_json(self.request)
