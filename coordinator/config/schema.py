"""RunConfig: all settings of a run, typed, closed, and documented where they are defined.

The steps to it: `loading` reads a TOML file and `key=value` pairs and refuses what `keys` does not list, `defaults`
completes them layer by layer, and `checks` refuses values that exclude each other.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
from msgspec import Meta, field

from coordinator.placement.placement_rules import PLACEMENTS
from coordinator.pricing.prices import Architecture, StorageClass
from coordinator.rules import sharing
from coordinator.rules.grouping import GROUPINGS, Cap
from coordinator.rules.league import LEAGUE_RULES
from coordinator.rules.scaling import SCALING_RULES
from coordinator.rules.sharing import BASES, SHARING_MODES
from coordinator.rules.similarity import DISTANCES
from coordinator.rules.trend import TRENDS
from functions.algorithms import registry as algorithms
from functions.algorithms.specification import AlgorithmConfig
from functions.environments.base import EnvTask
from functions.function_specs import NAMES
from functions.messages.learner import Rows
from functions.resources.settings import Resource
from functions.setting_limits import (
    LARGEST,
    MOST_AGENTS,
    MOST_ENV_STEPS,
    MOST_ENVS,
    MOST_EPISODES,
    MOST_LAG,
    MOST_LAYERS,
    MOST_ROLLOUTS,
    MOST_ROUNDS,
    MOST_SEED,
    MOST_STEPS,
    MOST_UNITS,
)

# The class of the table `algorithm` depends on its key `name`; plug-ins add classes.
if TYPE_CHECKING:
    AnyConfig = AlgorithmConfig
else:
    AnyConfig = Any

DEFAULT_ALGORITHM = "mappo"
DEFAULT_ROUNDS = 400
RANDOM = "random"
# Lambda's largest function, MB.
MOST_MB = 10_240


class ConfigError(Exception):
    """The configuration cannot be used; the message is one line for the user."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file."""


class Actors(Section, frozen=True, kw_only=True):
    """Size of a rollout, the unit of sampling. The table `placement` packs rollouts into invocations."""

    num_envs: Annotated[int, Meta(ge=1, le=MOST_ENVS, description="environments of a rollout, stepped together")] = 64
    rollout_length: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MOST_STEPS,
                description="steps of every environment in a rollout; default: one episode. Longer episodes go on in"
                " the next round",
            ),
        ]
        | None
    ) = None


class Trend(Section, frozen=True, kw_only=True):
    """The decline of returns on which dynamic sharing is switched on or off."""

    rule: Annotated[str, Meta(description=TRENDS.listing())] = "significant"
    window: Annotated[int, Meta(ge=3, le=100, description="rounds of the trend's window, W of the paper")] = 10
    gamma: Annotated[
        float, Meta(ge=-LARGEST, le=LARGEST, description="threshold of the rules paper and decline, per round")
    ] = 0.0
    alpha: Annotated[
        float,
        Meta(ge=0.001, le=0.1, description="significant: probability of a false alarm in 100 rounds without a trend"),
    ] = 0.05


class Sharing(Section, frozen=True, kw_only=True):
    """Which agents share networks, and how the rules dynamic and roles change that during training."""

    rule: Annotated[str, Meta(description=SHARING_MODES.listing())] = "none"
    groups: (
        Annotated[
            tuple[Annotated[tuple[str, ...], Meta(min_length=1)], ...],
            Meta(min_length=1, description="rule groups: agents that share; those not named are on their own"),
        ]
        | None
    ) = None
    rows: Annotated[
        Rows,
        Meta(description="a group learns from the rows of all members (pooled), or from one member's share of them"),
    ] = "pooled"
    identity: (
        Annotated[bool, Meta(description="networks take the agent's one-hot; default: yes, but with none")] | None
    ) = None
    start: Annotated[sharing.Start, Meta(description="how dynamic sharing begins; the MARLess paper begins apart")] = (
        "together"
    )
    distance: Annotated[str, Meta(description=f"between policies: {DISTANCES.listing()}")] = "jsd"
    grouping: Annotated[str, Meta(description=GROUPINGS.listing())] = "linkage"
    cap: Annotated[
        Cap | Annotated[int, Meta(ge=1, le=MOST_AGENTS)],
        Meta(description="most groups of kmeans in a class: a number, or by the paper's text or figure"),
    ] = "text"
    epsilon: Annotated[
        float, Meta(gt=0, le=LARGEST, description="linkage merges agents closer than this, with confidence")
    ] = 0.1
    confidence: Annotated[float, Meta(gt=0, lt=1, description="confidence that a distance is below epsilon")] = 0.95
    base: Annotated[str, Meta(description=f"networks that a new group starts from: {BASES.listing()}")] = "distil"
    distil_steps: Annotated[int, Meta(ge=1, le=10_000, description="optimiser steps of base distil")] = 200
    trial: Annotated[
        bool, Meta(description="share only if a trial on fresh episodes shows the shared team no worse than margin")
    ] = True
    margin: Annotated[
        float, Meta(gt=0, le=LARGEST, description="loss of return that the trial accepts, as a share of the run's gain")
    ] = 0.1
    error: Annotated[
        float,
        Meta(
            gt=0,
            lt=0.5,
            description="probability that the trial accepts a worse team, and that roles sees some in vain",
        ),
    ] = 0.05
    trial_episodes: Annotated[
        int, Meta(ge=2, le=10_000, description="the most episodes that each of the two teams plays in a trial")
    ] = 1600


class Scaling(Section, frozen=True, kw_only=True):
    """How many rollouts a round samples."""

    rule: Annotated[str, Meta(description=SCALING_RULES.listing())] = "constant"
    rollouts: Annotated[
        int, Meta(ge=1, le=MOST_ROLLOUTS, description="rollouts per round; for rules other than constant the most")
    ] = 1
    min_rollouts: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=MOST_ROLLOUTS,
                description="fewest per round; default: rollouts / agents, with tradeoff and budget 2, with adapt 1",
            ),
        ]
        | None
    ) = None
    priced_as: (
        Annotated[
            str, Meta(description="placement whose list prices tradeoff and budget read; default: placement.rule")
        ]
        | None
    ) = None
    beta: Annotated[float, Meta(ge=0, le=1, description="threshold of the rules paper and offset")] = 0.5


class Placement(Section, frozen=True, kw_only=True):
    """How work is spread over invocations; it changes no weight, unless a scaling rule reads its list prices."""

    rule: Annotated[str, Meta(description=PLACEMENTS.listing())] = "balanced"
    rollouts_per_invocation: Annotated[
        int, Meta(ge=1, le=MOST_ROLLOUTS, description="rollouts in one actor invocation")
    ] = 1
    rounds: Annotated[int, Meta(ge=1, le=100, description="most rounds in one invocation of whole")] = 10
    inline_objects: Annotated[
        bool, Meta(description="send objects inside messages and store them at checkpoints only; auto chooses itself")
    ] = False
    deadline_s: (
        Annotated[float, Meta(gt=0, le=LARGEST, description="auto: the cheapest within this time per round")] | None
    ) = None
    dollars_per_hour: Annotated[float, Meta(gt=0, le=LARGEST, description="auto: the fastest at this rate")] | None = (
        None
    )


class Pipeline(Section, frozen=True, kw_only=True):
    """What of a round runs beside what."""

    lag: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST_LAG,
            description="with 1 a round learns from the one before it, while it is sampled; more makes the data older"
            " and no round shorter",
        ),
    ] = 0

    rollouts: Annotated[
        int,
        Meta(
            ge=0,
            le=MOST_ROLLOUTS,
            description="rollouts of a micro-batch, whose gradients are summed while others are sampled; 0: learning"
            " waits for the whole round",
        ),
    ] = 0

    def micro_batches(self, rollouts: int) -> int:
        """Into how many micro-batches so many rollouts are split; 0 where they are not."""
        return -(-rollouts // self.rollouts) if self.rollouts else 0


class Evaluation(Section, frozen=True, kw_only=True):
    """Greedy episodes on fresh start states."""

    every: Annotated[int, Meta(ge=1, le=MOST_ROUNDS, description="rounds between evaluations")] = 10
    episodes: Annotated[
        int, Meta(ge=2, le=MOST_EPISODES, description="episodes of an evaluation; the absolute metric takes ten times")
    ] = 320
    final_episodes: Annotated[
        int,
        Meta(
            ge=2,
            le=MOST_EPISODES,
            description="episodes for the return of the final policies; fewer, as `episodes`, in short runs of tasks"
            " without a family",
        ),
    ] = 3200
    episodes_per_invocation: Annotated[
        int, Meta(ge=1, le=MOST_EPISODES, description="episodes in one evaluator invocation")
    ] = 3200
    side: (
        Annotated[int, Meta(ge=0, le=MOST_AGENTS, description="side whose return counts; default: the largest")] | None
    ) = None
    options: Annotated[
        dict[str, str | int | float | bool],
        Meta(description="options of the task in evaluations, where they are others than in training"),
    ] = {}


class Opponents(Section, frozen=True, kw_only=True):
    """The side of a competitive task that does not learn, so that the others learn against fixed opponents."""

    side: (
        Annotated[int, Meta(ge=0, le=MOST_AGENTS, description="the side that does not learn; default: none")] | None
    ) = None
    policies: Annotated[
        str, Meta(min_length=1, description="its policies: random, scripted, or those of a run or a file")
    ] = RANDOM


class League(Section, frozen=True, kw_only=True):
    """Rollouts in which one side of a competitive task learns against earlier policies of the run."""

    rule: Annotated[str, Meta(description=LEAGUE_RULES.listing())] = "none"
    every: Annotated[
        int, Meta(ge=1, le=MOST_ROUNDS, description="rounds between checkpoints; twice as many once it is full")
    ] = 10
    size: Annotated[int, Meta(ge=2, le=64, description="the most checkpoints")] = 8
    share: Annotated[float, Meta(gt=0, le=1, description="part of a round's rollouts, but for one, against them")] = 0.5
    script: (
        Annotated[
            str,
            Meta(min_length=1, description="a player among them: scripted, or package.module:function; default: none"),
        ]
        | None
    ) = None


class Base(Section, frozen=True, kw_only=True):
    """Networks that stay as they are; what the run trains is a difference of low rank to them."""

    policies: (
        Annotated[
            str, Meta(min_length=1, description="a finished run whose networks are the base; default: networks are new")
        ]
        | None
    ) = None
    model: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="agents that speak: a folder or file with a language model; default: a small one that is"
                " made for the task",
            ),
        ]
        | None
    ) = None
    rank: Annotated[int, Meta(ge=1, le=MOST_UNITS, description="largest rank of the differences of matrices")] = 4
    layers: Annotated[
        int, Meta(ge=1, le=MOST_LAYERS, description="topmost layers of a language model that have differences")
    ] = 4


class Offline(Section, frozen=True, kw_only=True):
    """Learning from recorded episodes; the environment is for evaluations alone."""

    dataset: (
        Annotated[
            str,
            Meta(min_length=1, description="a folder of marless export --to npz, learned from in place of rollouts"),
        ]
        | None
    ) = None


class Stop(Section, frozen=True, kw_only=True):
    """Limits of the run, which ends with the first round that meets one of them. Default: 400 rounds."""

    rounds: Annotated[int, Meta(ge=0, le=MOST_ROUNDS, description="finished rounds")] | None = None
    env_steps: Annotated[int, Meta(ge=1, le=MOST_ENV_STEPS, description="environment steps")] | None = None
    seconds: (
        Annotated[float, Meta(gt=0, le=LARGEST, description="seconds of training, without interruptions")] | None
    ) = None
    dollars: (
        Annotated[float, Meta(gt=0, le=LARGEST, description="hard cap on the bill, never exceeded whatever fails")]
        | None
    ) = None
    return_: (
        Annotated[
            float, Meta(ge=-LARGEST, le=LARGEST, description="target for the mean greedy return of an evaluation")
        ]
        | None
    ) = field(default=None, name="return")


class Function(Section, frozen=True, kw_only=True):
    """Size of a function. 1,769 MB buy one vCPU, which counts as one core of this machine."""

    memory_mb: Annotated[int, Meta(ge=128, le=MOST_MB, description="memory of the function")] = 1769
    timeout_s: Annotated[float, Meta(gt=0, le=900, description="time limit of one attempt")] = 60.0


# A key for every row of `function_specs`.
if TYPE_CHECKING:

    class Functions(Section, frozen=True, kw_only=True):
        def __getattr__(self, name: str) -> Function: ...

else:
    Functions = msgspec.defstruct(
        "Functions",
        [(name, Function, Function()) for name in NAMES],
        bases=(Section,),
        kw_only=True,
        module=__name__,
        namespace={"__doc__": "The functions' sizes."},
    )


class Pricing(Section, frozen=True, kw_only=True):
    """The price list of the bill."""

    region: Annotated[str, Meta(description="AWS region of the price list")] = "us-east-1"
    architecture: Annotated[Architecture, Meta(description="processor of the functions: arm or x86")] = "arm"
    storage: Annotated[StorageClass, Meta(description="S3 class: standard or express")] = "standard"


class Log(Section, frozen=True, kw_only=True):
    """Where the run is logged besides its own files; it changes no weight, and may be set anew at a resume."""

    to: Annotated[
        tuple[str, ...],
        Meta(description="a list of loggers: csv, tensorboard, wandb, mlflow, and those of other packages"),
    ] = ()


class RunConfig(Section, frozen=True, kw_only=True):
    """A run."""

    seed: Annotated[int, Meta(ge=0, le=MOST_SEED, description="seed of all random numbers of the run")] = 1
    attempts: Annotated[int, Meta(ge=1, le=10, description="attempts of a work item before the run fails")] = 3
    checkpoint_every: Annotated[
        int, Meta(ge=1, le=MOST_ROUNDS, description="rounds between checkpoints that survive a power loss")
    ] = 25
    task: EnvTask = EnvTask(name="mpe/simple_spread")
    algorithm: AnyConfig = field(default_factory=lambda: algorithms.algorithm(DEFAULT_ALGORITHM).config())
    actors: Actors = Actors()
    trend: Trend = Trend()
    sharing: Sharing = Sharing()
    scaling: Scaling = Scaling()
    placement: Placement = Placement()
    pipeline: Pipeline = Pipeline()
    evaluation: Evaluation = Evaluation()
    opponents: Opponents = Opponents()
    league: League = League()
    offline: Offline = Offline()
    base: Base = Base()
    stop: Stop = Stop()
    functions: Functions = Functions()
    resources: dict[str, Resource] = {}
    pricing: Pricing = Pricing()
    log: Log = Log()

    def __post_init__(self) -> None:
        if not isinstance(self.algorithm, AlgorithmConfig):
            msgspec.structs.force_setattr(self, "algorithm", _convert_algorithm(self.algorithm))

    @property
    def evaluated_task(self) -> EnvTask:
        """The env task of evaluations: that of training, with `evaluation.options`."""
        return msgspec.structs.replace(self.task, options=self.task.options | self.evaluation.options)

    def effective(self) -> Self:
        """The configuration, with a limit of `DEFAULT_ROUNDS` rounds if it has no limit."""
        if any(value is not None for value in msgspec.structs.asdict(self.stop).values()):
            return self
        return msgspec.structs.replace(self, stop=Stop(rounds=DEFAULT_ROUNDS))


def _convert_algorithm(document: Any) -> AlgorithmConfig:
    """The table `algorithm` as its algorithm's configuration class; raises `ValueError` with the place."""
    spec = algorithms.algorithm(algorithm_name({"algorithm": document}))
    try:
        return msgspec.convert(document, spec.config)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        raise ValueError(f"{text} - at `$.algorithm{place or '`'}") from error


def algorithm_name(document: Mapping[str, Any]) -> str:
    """The algorithm that a document names; the default one if the name is not a string."""
    table = document.get("algorithm")
    name = table.get("name", DEFAULT_ALGORITHM) if isinstance(table, Mapping) else DEFAULT_ALGORITHM
    return name if isinstance(name, str) else DEFAULT_ALGORITHM
