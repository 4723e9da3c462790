"""The coordinator's two values of a run: the plan, which never changes, and the state, which `apply` replaces.

`decide` reads these two alone, so a killed run is resumed by loading its state.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from msgspec import UnsetType, field, structs

from marless.coordinator.call_ledger import CallLedger, CallTally
from marless.coordinator.config.schema import Function, RunConfig
from marless.coordinator.core.controller import ControllerState, Decision, Proposal
from marless.coordinator.core.league_matches import LeagueState
from marless.coordinator.core.opponents import FixedOpponents
from marless.coordinator.placement.placement_rules import RoundPlacement
from marless.coordinator.placement.timings import Timings
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.bill import Meter
from marless.coordinator.pricing.prices import Prices
from marless.functions import keys
from marless.functions.encoding import own_format
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.actor import Unfinished
from marless.functions.messages.exchange import Done
from marless.functions.messages.learner import FrozenNetworks, Past
from marless.functions.messages.message import Message, Ref
from marless.functions.messages.order import LanguageModel
from marless.functions.messages.team import Team
from marless.functions.messages.usage import CallUse, Usage

if TYPE_CHECKING:
    from marless.coordinator.governor.tenant_budget import Allowance

Phase = Literal["describe", "initialise", "round", "regroup", "trial", "final", "absolute"]
Status = Literal["running", "finished", "stopped", "failed"]


class RunInputs(Message, frozen=True, kw_only=True):
    """The inputs of a run: objects that are stored once, before it begins, and that any round may read."""

    opponents: FixedOpponents | None = None
    """Opponents that have policies."""
    dataset: Ref | None = None
    """What the run learns from in place of its own rollouts."""
    base: FrozenNetworks | None = None
    """What its networks are differences to."""
    language_model: LanguageModel | None = field(default=None, name="model")
    """The model by which agents speak."""

    def of_learners(self) -> "RunInputs":
        """The inputs that the learners of each round read whole."""
        return RunInputs(base=self.base)

    def refs(self) -> Iterator[Ref]:
        """All of the objects."""
        if self.opponents is not None:
            yield self.opponents.policies
        if self.dataset is not None:
            yield self.dataset
        if self.base is not None:
            yield self.base.networks
        if self.language_model is not None:
            yield self.language_model.base


NO_INPUTS = RunInputs()


@dataclass(frozen=True)
class Plan:
    """The user's configuration, and the properties of the platform."""

    run: str
    """The run's name."""
    config: RunConfig
    """The user's configuration, complete."""
    code: str
    """The hash of the program that began the run."""
    prices: Prices
    """The price list of the bill."""
    platform: Platform
    """What the back-end promises."""
    inputs: RunInputs = NO_INPUTS
    """What the run is given."""
    allowance: "Allowance | None" = None
    """The rest of the tenant's budget for the run, None without a budget."""

    def limited(self, dollars: float | None, **platform: int) -> "Plan":
        """The plan that costs at most `dollars`, on a platform that differs in these fields."""
        config = structs.replace(self.config, stop=structs.replace(self.config.stop, dollars=dollars))
        return replace(self, config=config, platform=structs.replace(self.platform, **platform))

    def size_of(self, function: str) -> Function:
        """Return the user's settings of a function."""
        size: Function = getattr(self.config.functions, function)
        return size


class WorkItem(Message, frozen=True, kw_only=True):
    """A piece of a phase's work: the function that serves it, and the factors of its duration and cost."""

    function: str
    """The name of the function."""
    memory_mb: int
    """The function's memory, MB."""
    kind: str
    """Durations of earlier work of this kind and weight predict this one's."""
    weight: int = 1
    """Episodes, for evaluations; else rounds."""
    size: float = 0.0
    """The size by which the placement planner scales durations."""
    concurrent_items: int = field(default=1, name="peers")
    """Work items of this kind that run together, this one included."""
    gets: int = 0
    """The most objects that an attempt reads."""
    expected_hits: Usage = field(default=Usage(), name="kept")
    """Those of them, as hits, that its function keeps by the model of the bill
    (`marless.coordinator.core.round_nodes`)."""


class Slot(Message, frozen=True, kw_only=True):
    """A work item in flight: its last attempt, and the answer once there is one."""

    item: WorkItem
    """What is done."""
    attempt: int = 0
    """The number of the last attempt, from 0."""
    timeout_s: float
    """The time limit of an attempt, in seconds."""
    waiting: bool = True
    """No report of the attempt has arrived."""
    failures: int = 0
    """Attempts that ended badly."""
    problem: str = ""
    """How the last of them ended."""
    not_retryable: bool = False
    """No further attempt can succeed."""
    diverged: bool = False
    """The attempt made NaN or infinite numbers."""
    done: Done | None = None
    """The answer, once there is one."""
    ask: str = ""
    """The attempts that are awaited together with this one have the same, in a detached run."""


class Evaluated(Message, frozen=True, kw_only=True):
    """Greedy episodes of the policies after `round` rounds and `env_steps` steps."""

    round: int
    """Rounds before the evaluation."""
    env_steps: int
    """Environment steps before the evaluation."""
    returns: tuple[float, ...]
    """By episode, undiscounted, summed over the agents, or over those of `side` where some compete: policies are ranked
    by them."""
    side: str = ""
    """The side whose return ranks policies, where some compete."""
    side_returns: dict[str, float] = field(default_factory=dict)
    """Means of all sides by name, where some agents compete."""
    env_metrics: dict[str, float] = field(default_factory=dict)
    """Means of the environment's own metrics."""

    @property
    def mean(self) -> float:
        """The mean over the episodes."""
        return sum(self.returns) / len(self.returns)


class Best(Message, frozen=True, kw_only=True):
    """The policies with the best evaluation so far, or the newest where several sides learn, and their team.

    At the end of a run the final policies, unless an evaluation's mean is higher by more than its error.
    """

    round: int
    """The rounds after which these were the run's policies."""
    mean: float
    """Their mean return."""
    team: Team
    """The team that they belong to."""
    policies: tuple[Ref, ...]
    """The objects that hold them."""


class RoundCalls(Message, frozen=True, kw_only=True):
    """The actions of one resource in a round."""

    count: int
    """Actions that the round's tasks pay for."""
    hits: int = 0
    """Questions whose kept answer was paid for before."""
    seconds: float
    """How long the resource worked at the actions they pay for."""
    timed: int = 0
    """Actions whose completion times are known, kept answers left out."""
    mean_ms: float | None = None
    """The mean action completion time: from the call in the environment until the answer is there."""
    p99_ms: float | None = None
    """The completion time that one action in a hundred exceeds, within 1 %."""


class RoundLine(Message, frozen=True, kw_only=True):
    """A finished round, as one line of metrics.jsonl. Returns are undiscounted, over the sampled episodes."""

    round: int
    """The number of the round, from 1."""
    env_steps: int
    """Environment steps from the start of the run to the end of this round."""
    seconds: float
    """Training time from the start of the run to the end of this round."""
    dollars: float
    """The bill from the start of the run to the end of this round."""
    rollouts: int
    """Rollouts of the round."""
    learners: int
    """The learners among the work items of `invocations`."""
    groups: int
    """Groups of agents that share networks."""
    invocations: int
    """Work items of the round: samples, learners, and an evaluation beside them."""
    episodes: int
    """Episodes that ended in the round."""
    return_mean: float | None
    """Over episodes, each summed over agents; None without a finished episode."""
    return_sd: float | None
    """The standard deviation over the same episodes."""
    agent_returns: tuple[float, ...]
    """Means by agent."""
    env_metrics: dict[str, float]
    """Means of the environment's own metrics over the same episodes."""
    metrics: dict[str, float]
    """The learners' metrics."""
    evaluation: Evaluated | None = None
    """Of the policies that sampled the round."""
    team: tuple[int, ...] = ()
    """The group in which each agent learned the round."""
    slope: float | None = None
    """The trend of the normalised returns."""
    diversity: float | None = None
    """How differently the agents act: system neural diversity, see `marless.coordinator.core.controller`."""
    event: str = ""
    """The change of sharing: '', 'shared', 'split', 'rejected' (by a trial), 'skipped', 'unaffordable' or 'alone'."""
    trial_episodes: int = 0
    """In each arm of the trial."""
    placement: str = ""
    """The rule by which the round ran."""
    side_returns: dict[str, float] = field(default_factory=dict)
    """Means of each side by name, summed over its agents; empty where no agents compete."""
    exploration: float = 0.0
    """ε, or the noise in half ranges, that actors added to the policies; 0 where they draw from the policies alone."""
    staleness: int | None = 0
    """Rounds between the sampling of what the round learned from and the round; None where it learned nothing."""
    actions: dict[str, RoundCalls] = field(default_factory=dict)
    """Of the resources that were asked since the round before, by name; no rule reads them."""


class State(Message, frozen=True, kw_only=True):
    """A run between two decisions."""

    format_version: int | UnsetType = field(default_factory=own_format)
    """See `marless.functions.encoding`."""
    status: Status = "running"
    """Whether the run goes on, and how it ended if it does not."""
    reason: str = ""
    """Which limit ended the training, or why the run stopped or failed."""
    phase: Phase = "describe"
    """The phase of the coming round whose tasks are in flight."""
    round: int = 0
    """Finished rounds."""
    env_steps: int = 0
    """Environment steps of finished rounds."""
    evaluated: int = 0
    """Environment steps before the last evaluation, with `evaluation.every_steps`."""
    seconds: float = 0.0
    """Training time without interruptions."""
    spec: EnvSpec | None = None
    """The environment's spec; None in phase describe."""
    team: Team | None = None
    """The agents' groups; None in phase describe."""
    objects: tuple[Ref, ...] = ()
    """The objects of the learner's state."""
    parts: dict[str, int] = field(default_factory=dict)
    """For each `part/group` the position in `objects` of the object that holds it."""
    slots: dict[str, Slot] = field(default_factory=dict)
    """The tasks of the phase by work name."""
    meter: Meter = Meter()
    """What the bill counts, so far."""
    lost_use: Meter = Meter()
    """The part of `meter` that attempts without an answer used, apart from what they asked of resources."""
    billed_calls: dict[str, dict[int, dict[str, CallUse]]] = field(default_factory=dict, name="billed_actions")
    """What of it work items asked of resources since the last checkpoint, by round and work name, and by attempt."""
    resource_calls: dict[str, CallTally] = field(default_factory=dict, name="actions")
    """The calls of resources since the last round ended, by resource."""
    slowest: dict[str, float] = field(default_factory=dict)
    """The longest duration by kind of task, in milliseconds per unit of weight."""
    most_calls: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict, name="most_actions")
    """The most calls and milliseconds by kind of task and resource, per unit of weight."""
    timings: Timings = field(default_factory=dict)
    """Durations of earlier work, for the placement planner."""
    peaks: dict[str, float] = field(default_factory=dict)
    """Peak megabytes by function, for the placement planner."""
    item_bytes: int = 0
    """Bytes of the last ledger write, for the placement planner."""
    warm_rounds: dict[str, tuple[int, ...]] = field(default_factory=dict, name="served")
    """By function, the newest round that each of its environments has kept, by the model of the bill."""
    saved: int | None = None
    """The round of the last checkpoint."""
    controller: ControllerState = ControllerState()
    """The history that the controller's rules need."""
    league: LeagueState | None = None
    """The run's own checkpoints, as opponents."""
    round_placement: RoundPlacement | None = None
    """How the round in flight is spread over functions."""
    proposal: Proposal | None = None
    """A team that the round may end with."""
    decision: Decision | None = None
    """The rest of the decision that proposed it."""
    lines: tuple[RoundLine, ...] = ()
    """The lines of the rounds that ended last."""
    best: Best | None = None
    """The best policies so far."""
    past: tuple[Past, ...] = ()
    """Earlier rounds that the next one may learn from, oldest first."""
    unfinished: tuple[Unfinished, ...] = ()
    """Episodes that rollouts go on with, oldest first."""
    checkpointed: tuple[str, ...] = ()
    """Keys that the last checkpoint needs."""
    garbage: tuple[str, ...] = ()
    """Keys that neither the last checkpoint nor the state needs any more."""
    final: tuple[float, ...] = ()
    """Returns of the evaluation of the final policies, by episode."""
    absolute: tuple[float, ...] = ()
    """Returns of the evaluation of the best policies (the absolute metric), by episode."""
    final_sides: dict[str, float] = field(default_factory=dict)
    """Means by side in the evaluation of the final policies."""
    absolute_sides: dict[str, float] = field(default_factory=dict)
    """Means by side in the evaluation of the best policies."""
    final_env_metrics: dict[str, float] = field(default_factory=dict)
    """Means of the environment's own metrics in the evaluation of the final policies."""
    absolute_env_metrics: dict[str, float] = field(default_factory=dict)
    """Means of the environment's own metrics in the evaluation of the best policies."""

    @property
    def env_spec(self) -> EnvSpec:
        """The environment's spec. Raises `ValueError` in phase describe."""
        if self.spec is None:
            raise ValueError("the environment's spec is not known yet")
        return self.spec

    @property
    def refused(self) -> bool:
        """True if the environment does not support the configuration."""
        # If a task failed instead, its slot has the problem.
        return self.status == "failed" and self.phase == "describe" and not self.slots

    @property
    def diverged(self) -> bool:
        """True if a learner made NaN or infinity. A resume would repeat that, so it is refused."""
        return self.status == "failed" and any(slot.diverged for slot in self.slots.values())

    @property
    def line(self) -> RoundLine | None:
        """The last finished round."""
        return self.lines[-1] if self.lines else None

    @property
    def placement(self) -> RoundPlacement:
        """The placement of the round in flight. Raises `ValueError` before the first round."""
        if self.round_placement is None:
            raise ValueError("no round is placed yet")
        return self.round_placement

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups that learn, ascending."""
        return self.team.learning if self.team else ()

    @property
    def waiting(self) -> dict[str, Slot]:
        """The tasks with an unreported last attempt, by work name."""
        return {work: slot for work, slot in self.slots.items() if slot.waiting}

    @property
    def durable_refs(self) -> tuple[Ref, ...]:
        """The objects that a resume needs, each once."""
        best = self.best.policies if self.best else ()
        past = (ref for round_ in self.past for ref in round_.trajectories)
        league = (ref for one in (self.league.checkpoints if self.league else ()) for ref in one.policies)
        episodes = (one.episodes for one in self.unfinished)
        return tuple(dict.fromkeys((*self.objects, *best, *past, *league, *episodes)))

    @property
    def calls(self) -> CallLedger:
        """The calls of resources, and who pays for them."""
        return CallLedger(self.billed_calls, self.resource_calls)

    def with_calls(self, ledger: CallLedger) -> "State":
        """The state with this ledger of calls."""
        return structs.replace(self, billed_calls=ledger.paid, resource_calls=ledger.tallies)

    @property
    def call_keys(self) -> tuple[str, ...]:
        """The object keys that tasks of the round in flight may have used to store their resource calls."""
        works = (work for work in self.slots if f"{self.round:06d}/{work}" in self.billed_calls)
        return tuple(keys.object_key(keys.output_prefix(self.round, work), keys.ACTIONS) for work in works)

    @property
    def round_refs(self) -> tuple[Ref, ...]:
        """The objects that the tasks of the round in flight stored."""
        return tuple(ref for slot in self.slots.values() if slot.done for ref in slot.done.objects.values())

    def refs(self, parts: set[str]) -> tuple[Ref, ...]:
        """The objects that hold any of `parts` (`part/group`), each once, in order."""
        return tuple(self.objects[index] for index in sorted({self.parts[part] for part in parts}))

    @property
    def policies(self) -> tuple[Ref, ...]:
        """The objects that actors read."""
        return self.refs({part for part in self.parts if part.startswith("policy/")})
