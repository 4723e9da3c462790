"""The coordinator's two values of a run: the plan, which never changes, and the state, which `apply` replaces.

`decide` reads these two alone, so a killed run is resumed by loading its state.
"""

from dataclasses import dataclass
from typing import Literal

from msgspec import field

from coordinator.config.schema import RunConfig
from coordinator.core.controller import ControllerState, Decision, Proposal
from coordinator.core.league import LeagueState
from coordinator.core.opponents import Fixed
from coordinator.placement.round_placement import RoundPlacement
from coordinator.placement.timings import Timings
from coordinator.pricing.bill import Meter
from coordinator.pricing.prices import Prices
from functions.contract import Done, Message, Past, Platform, Ref, Team, Unfinished, Usage
from functions.environments.base import EnvSpec

Phase = Literal["describe", "initialise", "sample", "learn", "regroup", "trial", "final", "absolute"]
Status = Literal["running", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Plan:
    """The user's configuration, and what the platform promises."""

    run: str
    config: RunConfig
    # The hash of the program that began the run.
    code: str
    prices: Prices
    platform: Platform
    # Opponents that have policies.
    opponents: Fixed | None = None
    # What the run learns from in place of its own rollouts.
    dataset: Ref | None = None

    @property
    def inputs(self) -> tuple[Ref, ...]:
        """What was stored for the run before it began."""
        return (*([self.opponents.policies] if self.opponents else ()), *([self.dataset] if self.dataset else ()))


class WorkItem(Message, frozen=True, kw_only=True):
    """A piece of the work of a phase: the function that serves it, and what scales its duration and its cost."""

    function: str
    memory_mb: int
    # Durations of earlier work of this kind and weight (episodes, for evaluations; rounds) predict this one's.
    kind: str
    weight: int = 1
    # The size by which the placement planner scales durations.
    size: float = 0.0
    # Work items of this kind that run together, this one included.
    peers: int = 1
    # The most objects that an attempt reads.
    gets: int = 0
    # Those of them, as hits, that its function keeps by the model of the bill (`coordinator.core.warm_functions`).
    kept: Usage = Usage()


class Slot(Message, frozen=True, kw_only=True):
    """A work item in flight: its last attempt, and the answer once there is one."""

    item: WorkItem
    attempt: int = 0
    timeout_s: float
    # No report of the attempt has arrived.
    waiting: bool = True
    # Attempts that ended badly.
    failures: int = 0
    # How the last of them ended.
    problem: str = ""
    # No further attempt can succeed.
    not_retryable: bool = False
    # The attempt made NaN or infinite numbers.
    diverged: bool = False
    done: Done | None = None


class Evaluated(Message, frozen=True, kw_only=True):
    """Greedy episodes of the policies after `round` rounds and `env_steps` steps."""

    round: int
    env_steps: int
    # Undiscounted, summed over the agents, or over those of `side` where some compete: policies are ranked by them.
    returns: tuple[float, ...]
    side: str = ""
    # Means of all sides by name, where some agents compete.
    side_returns: dict[str, float] = field(default_factory=dict)
    # Means of the environment's own metrics.
    env_metrics: dict[str, float] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        """The mean over the episodes."""
        return sum(self.returns) / len(self.returns)


class Best(Message, frozen=True, kw_only=True):
    """The policies with the best evaluation so far, or the newest where several sides learn, and their team.

    At the end of a run the final policies, unless an evaluation's mean is higher by more than its error.
    """

    round: int
    mean: float
    team: Team
    policies: tuple[Ref, ...]


class RoundLine(Message, frozen=True, kw_only=True):
    """A finished round, as one line of metrics.jsonl; returns are undiscounted and those of the sampled episodes."""

    round: int
    # Sums from the start of the run to the end of this round.
    env_steps: int
    seconds: float
    dollars: float
    rollouts: int
    learners: int
    groups: int
    invocations: int
    episodes: int
    # Over episodes, each summed over agents; None without a finished episode.
    return_mean: float | None
    return_sd: float | None
    # Means by agent.
    agent_returns: tuple[float, ...]
    # Means of the environment's own metrics over the same episodes.
    env_metrics: dict[str, float]
    metrics: dict[str, float]
    # Of the policies that sampled the round.
    evaluation: Evaluated | None = None
    # The group in which each agent learned the round.
    team: tuple[int, ...] = ()
    # The trend of the normalised returns.
    slope: float | None = None
    # How differently the agents act: system neural diversity, see `coordinator.core.controller`.
    diversity: float | None = None
    # The change of sharing: '', 'shared', 'split', 'rejected' (by a trial), 'skipped', 'unaffordable' or 'alone'.
    event: str = ""
    # In each arm of the trial.
    trial_episodes: int = 0
    # The rule by which the round ran.
    placement: str = ""
    # Means of each side by name, summed over its agents; empty where no agents compete.
    side_returns: dict[str, float] = field(default_factory=dict)
    # ε, or the noise in half ranges, that actors added to the policies; 0 where they draw from the policies alone.
    exploration: float = 0.0


class State(Message, frozen=True, kw_only=True):
    """A run between two decisions."""

    status: Status = "running"
    # Which limit ended the training, or why the run stopped or failed.
    reason: str = ""
    # The phase of the coming round whose tasks are in flight, and the wave of its learners.
    phase: Phase = "describe"
    wave: int = 0
    # Finished rounds and their environment steps.
    round: int = 0
    env_steps: int = 0
    # Training time without interruptions.
    seconds: float = 0.0
    spec: EnvSpec | None = None
    team: Team | None = None
    # The objects of the learner's state, and for each `part/group` the position of the object that holds it.
    objects: tuple[Ref, ...] = ()
    parts: dict[str, int] = field(default_factory=dict)
    # The tasks of the phase by work name.
    slots: dict[str, Slot] = field(default_factory=dict)
    meter: Meter = Meter()
    # The longest duration by kind of task, in milliseconds per unit of weight.
    slowest: dict[str, float] = field(default_factory=dict)
    # The placement planner's inputs: durations, peak megabytes by function, bytes of the last ledger write.
    timings: Timings = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    item_bytes: int = 0
    # By function, the newest round that each of its environments has kept, by the model of the bill.
    served: dict[str, tuple[int, ...]] = field(default_factory=dict)
    # The round of the last checkpoint.
    saved: int | None = None
    controller: ControllerState = ControllerState()
    # The run's own checkpoints, as opponents.
    league: LeagueState | None = None
    # How the round in flight is spread over functions.
    round_placement: RoundPlacement | None = None
    # A team that the round may end with, and the rest of the decision that proposed it.
    proposal: Proposal | None = None
    decision: Decision | None = None
    # The lines of the rounds that ended last.
    lines: tuple[RoundLine, ...] = ()
    best: Best | None = None
    # Earlier rounds that the next one may learn from, oldest first.
    past: tuple[Past, ...] = ()
    # Episodes that rollouts go on with, oldest first.
    unfinished: tuple[Unfinished, ...] = ()
    # Keys that the last checkpoint needs, and keys that neither it nor the state needs any more.
    checkpointed: tuple[str, ...] = ()
    garbage: tuple[str, ...] = ()
    # Returns of the evaluations that end the run, with means by side and of the environment's own metrics.
    final: tuple[float, ...] = ()
    absolute: tuple[float, ...] = ()
    final_sides: dict[str, float] = field(default_factory=dict)
    absolute_sides: dict[str, float] = field(default_factory=dict)
    final_env_metrics: dict[str, float] = field(default_factory=dict)
    absolute_env_metrics: dict[str, float] = field(default_factory=dict)

    @property
    def env_spec(self) -> EnvSpec:
        """The environment's spec; raises `ValueError` in phase describe."""
        if self.spec is None:
            raise ValueError("the environment's spec is not known yet")
        return self.spec

    @property
    def refused(self) -> bool:
        """Whether the environment cannot do what the configuration demands."""
        # If a task failed instead, its slot has the problem.
        return self.status == "failed" and self.phase == "describe" and not self.slots

    @property
    def diverged(self) -> bool:
        """Whether a learner made NaN or infinity; as it would again, the run cannot be resumed."""
        return self.status == "failed" and any(slot.diverged for slot in self.slots.values())

    @property
    def line(self) -> RoundLine | None:
        """The last finished round."""
        return self.lines[-1] if self.lines else None

    @property
    def placement(self) -> RoundPlacement:
        """The placement of the round in flight; raises `ValueError` before the first round."""
        if self.round_placement is None:
            raise ValueError("no round is placed yet")
        return self.round_placement

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups that learn, ascending."""
        return self.team.learning if self.team else ()

    @property
    def durable_refs(self) -> tuple[Ref, ...]:
        """The objects that a resume needs, each once."""
        best = self.best.policies if self.best else ()
        past = (ref for round_ in self.past for ref in round_.trajectories)
        league = (ref for one in (self.league.checkpoints if self.league else ()) for ref in one.policies)
        unfinished = (one.episodes for one in self.unfinished)
        return tuple(dict.fromkeys((*self.objects, *best, *past, *league, *unfinished)))

    def refs(self, parts: set[str]) -> tuple[Ref, ...]:
        """The objects that hold any of `parts` (`part/group`), each once, in order."""
        return tuple(self.objects[index] for index in sorted({self.parts[part] for part in parts}))

    @property
    def policies(self) -> tuple[Ref, ...]:
        """The objects that actors read."""
        return self.refs({part for part in self.parts if part.startswith("policy/")})
