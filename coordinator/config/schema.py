"""RunConfig: all settings of a run, typed, closed, and documented where they are defined.

`loading` reads a TOML file and `key=value` pairs and refuses keys that `keys` does not list. Then `defaults` completes
the settings layer by layer, and `checks` refuses values that exclude each other.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import msgspec
from msgspec import Meta, field

from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.pricing.prices import Architecture, StorageClass
from marless.coordinator.rules import sharing
from marless.coordinator.rules.grouping import GROUPINGS, Cap
from marless.coordinator.rules.league import LEAGUE_RULES
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.coordinator.rules.sharing import BASES, SHARING_MODES
from marless.coordinator.rules.similarity import DISTANCES
from marless.coordinator.rules.trend import TRENDS
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.environments.base import EnvTask
from marless.functions.function_specs import NAMES
from marless.functions.messages.learner import Rows
from marless.functions.resources.settings import Resource
from marless.functions.setting_limits import (
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

# The class of the table `algorithm` depends on its key `name`. Plug-ins add classes.
if TYPE_CHECKING:
    AnyConfig = AlgorithmConfig
else:
    AnyConfig = Any

DEFAULT_ALGORITHM = "mappo"
DEFAULT_ROUNDS = 400
# Lengths of a run by preset, in default lengths.
PRESETS = {"quick": 1, "good": 10}
Preset = Literal["quick", "good"]
RANDOM = "random"
# Lambda's largest function, MB.
MOST_MB = 10_240


class ConfigError(Exception):
    """The configuration cannot be used. The message is one line for the user."""


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of the file."""


class Actors(Section, frozen=True, kw_only=True):
    """Rollouts, the unit of sampling. The table `placement` packs rollouts into invocations.

    Attributes:
        rollouts: rollouts per round, or the most that scaling.rule may pick. Higher is less noisy, but costs more
        num_envs: environments of a rollout, stepped together. Higher is less noisy, but each round takes longer
        rollout_length: steps of every environment in a rollout. Default: one episode. Longer episodes continue in the
            next round
    """

    rollouts: Annotated[int, Meta(ge=1, le=MOST_ROLLOUTS)] = 1
    num_envs: Annotated[int, Meta(ge=1, le=MOST_ENVS)] = 64
    rollout_length: Annotated[int, Meta(ge=1, le=MOST_STEPS)] | None = None


class Trend(Section, frozen=True, kw_only=True):
    """The decline of returns that switches dynamic sharing on or off.

    Attributes:
        window: rounds of the trend's window, W of the paper. Higher reacts later, but fewer declines are noise
        gamma: threshold of the rules paper and decline, in return per round
        alpha: significant: probability of a false alarm in 100 rounds without a trend. Lower raises fewer false alarms,
            but reacts later
    """

    rule: Annotated[str, Meta(description=TRENDS.listing())] = "significant"
    window: Annotated[int, Meta(ge=3, le=100)] = 10
    gamma: Annotated[float, Meta(ge=-LARGEST, le=LARGEST)] = 0.0
    alpha: Annotated[float, Meta(ge=0.001, le=0.1)] = 0.05


class Sharing(Section, frozen=True, kw_only=True):
    """The groups of agents that share networks, and the way that rules dynamic and roles change them during training.

    Attributes:
        groups: rule groups: lists of agents that share networks. Other agents have separate networks
        rows: a group learns from the rows of all members (pooled), or from as many rows as one member has
        identity: networks take the agent's one-hot as input. Default: true, but false with rule none
        start: how dynamic sharing begins. The MARLess paper begins apart
        cap: largest number of kmeans groups in a class: a number, or by the paper's text or figure
        epsilon: linkage merges agents if their distance is below this, with confidence. Higher merges more agents
        confidence: confidence that a distance is below epsilon. Higher merges fewer agents
        distil_steps: optimiser steps of base distil. Higher copies the members more exactly, but takes longer
        trial: share only after a trial on new episodes. The shared team may lose at most margin
        margin: loss of return that the trial accepts, as a share of the run's gain. Higher accepts sharing more often
        error: probability that the trial accepts a worse team, or that rule roles splits equal agents. Lower needs more
            episodes
        trial_episodes: largest number of episodes of each of the two teams in a trial. Higher detects smaller losses,
            but takes longer
    """

    rule: Annotated[str, Meta(description=SHARING_MODES.listing())] = "none"
    groups: Annotated[tuple[Annotated[tuple[str, ...], Meta(min_length=1)], ...], Meta(min_length=1)] | None = None
    rows: Rows = "pooled"
    identity: bool | None = None
    start: sharing.Start = "together"
    distance: Annotated[str, Meta(description=f"between policies: {DISTANCES.listing()}")] = "jsd"
    grouping: Annotated[str, Meta(description=GROUPINGS.listing())] = "linkage"
    cap: Cap | Annotated[int, Meta(ge=1, le=MOST_AGENTS)] = "text"
    epsilon: Annotated[float, Meta(gt=0, le=LARGEST)] = 0.1
    confidence: Annotated[float, Meta(gt=0, lt=1)] = 0.95
    base: Annotated[str, Meta(description=f"networks that a new group starts from: {BASES.listing()}")] = "distil"
    distil_steps: Annotated[int, Meta(ge=1, le=10_000)] = 200
    trial: bool = True
    margin: Annotated[float, Meta(gt=0, le=LARGEST)] = 0.1
    error: Annotated[float, Meta(gt=0, lt=0.5)] = 0.05
    trial_episodes: Annotated[int, Meta(ge=2, le=10_000)] = 1600


class Scaling(Section, frozen=True, kw_only=True):
    """Rule that sets how many rollouts a round samples.

    Attributes:
        min_rollouts: smallest number of rollouts per round. Default: actors.rollouts / agents, 2 with tradeoff and
            budget, 1 with adapt
        priced_as: placement that tradeoff and budget take list prices from. Default: placement.rule
        beta: threshold of the rules paper and offset
    """

    rule: Annotated[str, Meta(description=SCALING_RULES.listing())] = "constant"
    min_rollouts: Annotated[int, Meta(ge=1, le=MOST_ROLLOUTS)] | None = None
    priced_as: str | None = None
    beta: Annotated[float, Meta(ge=0, le=1)] = 0.5


class Placement(Section, frozen=True, kw_only=True):
    """Spread work over invocations. Weights stay the same, unless a scaling rule reads list prices.

    Attributes:
        pack: rollouts in one actor invocation. Higher needs fewer invocations, but rounds take longer
        chain: largest number of rounds in one invocation of whole
        inline_objects: send objects inside messages and store them only at checkpoints. Rule auto makes this choice
            itself
    """

    rule: Annotated[str, Meta(description=PLACEMENTS.listing())] = "balanced"
    pack: Annotated[int, Meta(ge=1, le=MOST_ROLLOUTS)] = 1
    chain: Annotated[int, Meta(ge=1, le=100)] = 10
    inline_objects: bool = False


class Pipeline(Section, frozen=True, kw_only=True):
    """Overlap of sampling and learning in a round.

    Attributes:
        lag: age of a round's data, in rounds. With 1, a round learns from the previous round's data while new data is
            sampled. Higher makes the data older and saves no time
        micro_batch: rollouts of a micro-batch. Its gradients are summed while other rollouts are sampled. With 0,
            learning waits for the whole round
    """

    lag: Annotated[int, Meta(ge=0, le=MOST_LAG)] = 0
    micro_batch: Annotated[int, Meta(ge=0, le=MOST_ROLLOUTS)] = 0

    def micro_batches(self, rollouts: int) -> int:
        """Return the number of micro-batches for so many rollouts, 0 without micro-batches."""
        return -(-rollouts // self.micro_batch) if self.micro_batch else 0


class Evaluation(Section, frozen=True, kw_only=True):
    """Episodes on fresh start states.

    Attributes:
        greedy: play the most probable actions. With false, actions are sampled like in training
        every: rounds between evaluations. Lower shows more of the learning curve, but takes longer
        every_steps: environment steps between evaluations, in place of `every`. The first round that reaches a multiple
            is evaluated, so runs with different rollouts are evaluated at the same steps
        episodes: episodes of an evaluation. Default: a tenth of the training's episodes between two evaluations, at
            most 320. Higher is more exact, but takes longer. The absolute metric takes ten times as many as you set
        final_episodes: episodes for the return of the final policies, and for the absolute metric unless you set
            `episodes`. Default: a twentieth of the training's episodes, 100 to 3,200
        episodes_per_invocation: episodes in one evaluator invocation
        side: team (side) for the reported return. Default: the largest
        options: options of the task in evaluations, if they differ from training
    """

    greedy: bool = True
    every: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)] = 10
    every_steps: Annotated[int, Meta(ge=1, le=MOST_ENV_STEPS)] | None = None
    episodes: Annotated[int, Meta(ge=2, le=MOST_EPISODES)] | None = None
    final_episodes: Annotated[int, Meta(ge=2, le=MOST_EPISODES)] | None = None
    episodes_per_invocation: Annotated[int, Meta(ge=1, le=MOST_EPISODES)] = 3200
    side: Annotated[int, Meta(ge=0, le=MOST_AGENTS)] | None = None
    options: dict[str, str | int | float | bool] = {}


class EvaluationSizes(NamedTuple):
    """The episodes of an evaluation, of the evaluation of the final policies, and of the absolute metric."""

    episodes: int
    final: int
    absolute: int


# By default, evaluations play a tenth of the training's steps for the curve. Each of the two evaluations that end a run
# plays a twentieth. Of a return's standard deviation s, the 95 % interval is 0.2 s wide to each side with 100 episodes,
# and 0.035 s with 3,200.
_CURVE_SHARE, _END_SHARE = 10, 20
_CURVE_EPISODES, _END_EPISODES = (16, 320), (100, 3200)


class Opponents(Section, frozen=True, kw_only=True):
    """Fixed opponents: one side of a competitive task does not learn.

    Attributes:
        side: the side that does not learn. Default: none
        policies: policies of this side: random, scripted, or the policies of a run or a file
    """

    side: Annotated[int, Meta(ge=0, le=MOST_AGENTS)] | None = None
    policies: Annotated[str, Meta(min_length=1)] = RANDOM


class League(Section, frozen=True, kw_only=True):
    """Rollouts against earlier policies of the run: one side of a competitive task learns at a time.

    Attributes:
        every: rounds between checkpoints. The number doubles when the league is full
        size: largest number of checkpoints. Higher gives more varied opponents
        share: share of a round's rollouts against checkpoints, after one rollout of self-play. Higher forgets old
            opponents less
        script: an additional opponent: scripted, or package.module:function. Default: none
    """

    rule: Annotated[str, Meta(description=LEAGUE_RULES.listing())] = "none"
    every: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)] = 10
    size: Annotated[int, Meta(ge=2, le=64)] = 8
    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    script: Annotated[str, Meta(min_length=1)] | None = None


class Pretrained(Section, frozen=True, kw_only=True):
    """Frozen networks as a start: the run trains only a difference of low rank to them.

    Attributes:
        policies: a finished run that provides the base networks. Default: new networks
        model: agents that speak: a folder or file with a language model. Default: a small model made for the task
        rank: largest rank of the differences of matrices. Higher can learn more, but takes more memory
        layers: topmost layers of a language model that have differences. Higher can learn more, but takes longer
    """

    policies: Annotated[str, Meta(min_length=1)] | None = None
    model: Annotated[str, Meta(min_length=1)] | None = None
    rank: Annotated[int, Meta(ge=1, le=MOST_UNITS)] = 4
    layers: Annotated[int, Meta(ge=1, le=MOST_LAYERS)] = 4


class Offline(Section, frozen=True, kw_only=True):
    """Learning from recorded episodes. Only evaluations use the environment.

    Attributes:
        dataset: a folder of marless export --to npz. The run learns from it in place of rollouts
    """

    dataset: Annotated[str, Meta(min_length=1)] | None = None


class Stop(Section, frozen=True, kw_only=True):
    """Limits of the run. It ends with the first round that meets one of them. Default: 400 rounds.

    Attributes:
        rounds: number of finished rounds
        env_steps: environment steps
        seconds: seconds of training, without interruptions
        dollars: hard cap on the bill, in dollars. The run never exceeds it, even after failures
        return_: target for the mean return of an evaluation
    """

    rounds: Annotated[int, Meta(ge=0, le=MOST_ROUNDS)] | None = None
    env_steps: Annotated[int, Meta(ge=1, le=MOST_ENV_STEPS)] | None = None
    seconds: Annotated[float, Meta(gt=0, le=LARGEST)] | None = None
    dollars: Annotated[float, Meta(gt=0, le=LARGEST)] | None = None
    return_: Annotated[float, Meta(ge=-LARGEST, le=LARGEST)] | None = field(default=None, name="return")


class Function(Section, frozen=True, kw_only=True):
    """Size of a function. 1,769 MB buy one vCPU, which counts as one core of this machine.

    Attributes:
        memory_mb: memory of the function, in MB. Higher is faster, but costs more per second
        timeout_s: time limit of one attempt, in seconds
    """

    memory_mb: Annotated[int, Meta(ge=128, le=MOST_MB)] = 1769
    timeout_s: Annotated[float, Meta(gt=0, le=900)] = 60.0


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
    """The price list of the bill.

    Attributes:
        region: AWS region of the price list
        architecture: processor of the functions: arm or x86
        storage: S3 class: standard or express
    """

    region: str = "us-east-1"
    architecture: Architecture = "arm"
    storage: StorageClass = "standard"


class Log(Section, frozen=True, kw_only=True):
    """Loggers of the run, in addition to its own files. They change no weight, and you can change them at a resume.

    Attributes:
        to: a list of loggers: csv, tensorboard, wandb, mlflow, or loggers of other packages
    """

    to: tuple[str, ...] = ()


class RunConfig(Section, frozen=True, kw_only=True):
    """A run.

    Attributes:
        seed: seed of all random numbers of the run
        attempts: attempts of a work item before the run fails. Higher survives more faults
        checkpoint_every: rounds between checkpoints that survive a power loss. Lower loses less work, but stores more
        preset: length of a run without stop.rounds and stop.env_steps. `good` trains ten times as long as `quick`, the
            default
    """

    seed: Annotated[int, Meta(ge=0, le=MOST_SEED)] = 1
    attempts: Annotated[int, Meta(ge=1, le=10)] = 3
    checkpoint_every: Annotated[int, Meta(ge=1, le=MOST_ROUNDS)] = 25
    preset: Preset | None = None
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
    base: Pretrained = Pretrained()
    stop: Stop = Stop()
    functions: Functions = Functions()
    resources: dict[str, Resource] = {}
    pricing: Pricing = Pricing()
    log: Log = Log()

    def __post_init__(self) -> None:
        if not isinstance(self.algorithm, AlgorithmConfig):
            msgspec.structs.force_setattr(self, "algorithm", _convert_algorithm(self.algorithm))

    @property
    def rollouts_of_task(self) -> int:
        """The most rollouts that one task plays."""
        most = self.actors.rollouts
        return min(self.placement.pack, most, self.pipeline.micro_batch or most)

    def learned_rounds(self, steps: int) -> int:
        """Return the number of rounds that the run learns from before `stop.rounds` or `stop.env_steps` ends it. Each
        round has `steps` environment steps. Without either limit, only the first round is certain."""
        limits = [self.stop.rounds, self.stop.env_steps and -(-self.stop.env_steps // steps)]
        return min([limit for limit in limits if limit is not None] or [1]) - self.pipeline.lag

    def evaluation_sizes(self, horizon: int) -> EvaluationSizes:
        """Return how many episodes of `horizon` steps evaluations play: the setting, or a share of the training.

        The size of an evaluation follows from the steps between two, so runs with other limits have the same curve. A
        run without a limit in steps or rounds counts as a run of `DEFAULT_ROUNDS` rounds.
        """
        stop, evaluation, actors = self.stop, self.evaluation, self.actors
        round_steps = actors.rollouts * actors.num_envs * (actors.rollout_length or horizon)
        limits = (stop.env_steps, None if stop.rounds is None else stop.rounds * round_steps)
        steps = min((limit for limit in limits if limit is not None), default=DEFAULT_ROUNDS * round_steps)
        between = max(round_steps, evaluation.every_steps or evaluation.every * round_steps)
        curve = _bounded(between // (_CURVE_SHARE * horizon), *_CURVE_EPISODES)
        end = _bounded(steps // (_END_SHARE * horizon), *_END_EPISODES)
        final = evaluation.final_episodes or end
        absolute = final if evaluation.episodes is None else 10 * evaluation.episodes
        return EvaluationSizes(evaluation.episodes or curve, final, absolute)

    @property
    def evaluated_task(self) -> EnvTask:
        """The env task of evaluations: the training's task with `evaluation.options`."""
        return msgspec.structs.replace(self.task, options=self.task.options | self.evaluation.options)

    def effective(self) -> Self:
        """Return the configuration with the rounds of its preset, or with `DEFAULT_ROUNDS` if it has no limit."""
        limits = {name for name, value in msgspec.structs.asdict(self.stop).items() if value is not None}
        if limits & {"rounds", "env_steps"} or (limits and self.preset is None):
            return self
        rounds = DEFAULT_ROUNDS * PRESETS[self.preset or "quick"]
        return msgspec.structs.replace(self, preset=None, stop=msgspec.structs.replace(self.stop, rounds=rounds))


def _bounded(value: int, least: int, most: int) -> int:
    return max(least, min(most, value))


def _convert_algorithm(document: Any) -> AlgorithmConfig:
    """Return the table `algorithm` as its configuration class. Raises `ValueError` with the place."""
    spec = algorithms.algorithm(algorithm_name({"algorithm": document}))
    try:
        return msgspec.convert(document, spec.config)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        raise ValueError(f"{text} - at `$.algorithm{place or '`'}") from error


def algorithm_name(document: Mapping[str, Any]) -> str:
    """Return the algorithm that a document names, or the default if the name is not a string."""
    table = document.get("algorithm")
    name = table.get("name", DEFAULT_ALGORITHM) if isinstance(table, Mapping) else DEFAULT_ALGORITHM
    return name if isinstance(name, str) else DEFAULT_ALGORITHM
