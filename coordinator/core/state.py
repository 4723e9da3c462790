"""What the coordinator knows of a run: the plan, which never changes, and the state, which `apply` replaces.

Both are values. The state is everything `decide` may look at beside the plan, so a run that was killed is resumed by
loading it.
"""

from dataclasses import dataclass
from typing import Literal

from msgspec import field

from coordinator.config.schema import RunConfig
from coordinator.core.controller import ControllerState, Proposal
from coordinator.core.opponents import Fixed
from coordinator.placement.round_placement import RoundPlacement
from coordinator.placement.timings import Timings
from coordinator.pricing.bill import Meter
from coordinator.pricing.prices import Prices
from functions.contract import Done, Message, Past, Platform, Ref, Team
from functions.environments.base import Spec

Phase = Literal["describe", "initialise", "sample", "learn", "regroup", "trial", "final", "absolute"]
Status = Literal["running", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Plan:
    """What the user asked for, and what the platform promises."""

    run: str
    config: RunConfig
    # The hash of the program that began the run.
    code: str
    prices: Prices
    platform: Platform
    # Opponents that have policies.
    opponents: Fixed | None = None


class Slot(Message, frozen=True, kw_only=True):
    """A task of the round in flight: the attempt asked last, and the answer once there is one.

    `waiting` while nobody has heard of the attempt. `failures` counts attempts that ended badly; `problem` says how the
    last one did, `not_retryable` that no attempt can do better, and `diverged` that what networks or learners made is
    NaN or infinite. The other fields are as in `tasks.Planned`.
    """

    function: str
    kind: str
    weight: int = 1
    size: float = 0.0
    peers: int = 1
    memory_mb: int
    attempt: int = 0
    timeout_s: float
    gets: int = 0
    waiting: bool = True
    failures: int = 0
    problem: str = ""
    not_retryable: bool = False
    diverged: bool = False
    done: Done | None = None


class Evaluated(Message, frozen=True, kw_only=True):
    """Greedy returns (sum over agents, undiscounted) of the policies after `round` rounds and `env_steps` steps.

    Where some agents compete, `returns` are sums over the agents of one side, `side`, by which policies are ranked;
    `side_returns` are the means of all sides by name. `scalars` are the means of the environment's own figures.
    """

    round: int
    env_steps: int
    returns: tuple[float, ...]
    side: str = ""
    side_returns: dict[str, float] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """The mean over the episodes."""
        return sum(self.returns) / len(self.returns)


class Best(Message, frozen=True, kw_only=True):
    """The policies with the best evaluation so far, or the newest where several sides learn, and their team."""

    round: int
    mean: float
    team: Team
    policies: tuple[Ref, ...]


class RoundLine(Message, frozen=True, kw_only=True):
    """A finished round, as one line of metrics.jsonl.

    `env_steps`, `seconds` and `dollars` are sums from the start of the run to the end of this round. Returns are of the
    sampled episodes: undiscounted, summed over agents in `return_*`, per agent in `agent_returns`, and where some
    compete summed over each side's agents in `side_returns`, by the side's name; `scalars` are the means of the
    environment's own figures over the same episodes. `exploration` is how much chance actors added to what the policies
    say: ε, or the noise in half ranges; 0 where they draw from the policies alone.
    `evaluation` is of the policies that sampled the round. `team[i]` is the group in which agent i learned it. `slope`
    is the trend of the normalised returns, `diversity` how differently the agents act (system neural diversity, see
    `coordinator.core.controller`). `event` is what became of sharing at its end: '', 'shared', 'split', 'rejected' (by
    a trial of `trial_episodes` episodes in each arm), 'skipped', 'unaffordable' or 'alone'. `placement` is where the
    round ran.
    """

    round: int
    env_steps: int
    seconds: float
    dollars: float
    rollouts: int
    learners: int
    groups: int
    invocations: int
    episodes: int
    return_mean: float | None
    return_sd: float | None
    agent_returns: tuple[float, ...]
    scalars: dict[str, float]
    figures: dict[str, float]
    evaluation: Evaluated | None = None
    team: tuple[int, ...] = ()
    slope: float | None = None
    diversity: float | None = None
    event: str = ""
    trial_episodes: int = 0
    placement: str = ""
    side_returns: dict[str, float] = field(default_factory=dict)
    exploration: float = 0.0


class State(Message, frozen=True, kw_only=True):
    """A run between two decisions.

    `round` rounds are finished and `phase` (with `wave`, for the learners' waves) of the next is in flight, its tasks
    in `slots` by work name. `parts[part/group]` is the position in `objects` of the object that holds it. `held` are
    keys that the last checkpoint needs, `retired` keys that nobody needs any more. `slowest` holds the longest
    milliseconds seen per kind of task (per episode, for evaluations). `seconds` is training time, interruptions left
    out. `round_placement` is how the round in flight is spread over functions; `timings`, `peaks` (most megabytes by
    function) and `item_bytes` (of the last ledger write) are what the planner goes by. `proposal` is a team that the
    round may end with, `lines` are of the rounds that ended last, `saved` is the round of the last checkpoint. `past`
    are the rounds that the next one may learn from, oldest first. `final` and `absolute` are returns as those of
    `Evaluated`, with the means of all sides and of the environment's own figures.
    """

    status: Status = "running"
    reason: str = ""
    phase: Phase = "describe"
    wave: int = 0
    round: int = 0
    env_steps: int = 0
    seconds: float = 0.0
    spec: Spec | None = None
    team: Team | None = None
    objects: tuple[Ref, ...] = ()
    parts: dict[str, int] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    meter: Meter = Meter()
    slowest: dict[str, float] = field(default_factory=dict)
    timings: Timings = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    saved: int | None = None
    item_bytes: int = 0
    controller: ControllerState = ControllerState()
    round_placement: RoundPlacement | None = None
    proposal: Proposal | None = None
    lines: tuple[RoundLine, ...] = ()
    best: Best | None = None
    past: tuple[Past, ...] = ()
    held: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    final: tuple[float, ...] = ()
    absolute: tuple[float, ...] = ()
    final_sides: dict[str, float] = field(default_factory=dict)
    absolute_sides: dict[str, float] = field(default_factory=dict)
    final_scalars: dict[str, float] = field(default_factory=dict)
    absolute_scalars: dict[str, float] = field(default_factory=dict)

    @property
    def task(self) -> Spec:
        """What the task looks like, known from the first answer on."""
        if self.spec is None:
            raise ValueError("nobody has looked at the task yet")
        return self.spec

    @property
    def refused(self) -> bool:
        """Whether the task, once it was looked at, could not give what the configuration asks of it."""
        # Where a task of a run failed instead, its slot says so.
        return self.status == "failed" and self.phase == "describe" and not self.slots

    @property
    def diverged(self) -> bool:
        """Whether learners made what is no number, which they would make again: the run cannot go on."""
        return self.status == "failed" and any(slot.diverged for slot in self.slots.values())

    @property
    def line(self) -> RoundLine | None:
        """The last finished round."""
        return self.lines[-1] if self.lines else None

    @property
    def place(self) -> RoundPlacement:
        """Where the round in flight runs, known from the first one on."""
        if self.round_placement is None:
            raise ValueError("no round is placed yet")
        return self.round_placement

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups that learn, ascending."""
        return self.team.learning if self.team else ()

    @property
    def lasting(self) -> tuple[Ref, ...]:
        """What the run cannot go on without, each once."""
        best = self.best.policies if self.best else ()
        remembered = (ref for round_ in self.past for ref in round_.trajectories)
        return tuple(dict.fromkeys((*self.objects, *best, *remembered)))

    def refs(self, parts: set[str]) -> tuple[Ref, ...]:
        """The objects that hold any of `parts` (`part/group`), each once, in order."""
        return tuple(self.objects[index] for index in sorted({self.parts[part] for part in parts}))

    @property
    def policies(self) -> tuple[Ref, ...]:
        """The objects that actors read."""
        return self.refs({part for part in self.parts if part.startswith("policy/")})
