"""RunConfig: all settings of a run, typed, closed, and documented where they are defined.

A run is described by a TOML file and `key=value` overrides with dotted keys. Every error in them becomes a
`ConfigError` of one line: the key, the fault, and a remedy.
"""

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args

import msgspec
from msgspec import Meta, field

from coordinator.config.renamed import RENAMED
from coordinator.config.tables import flatten
from coordinator.config.task_defaults import FEW, PPO_TASKS, fill_defaults
from coordinator.config.toml_files import MOST_BYTES, MOST_PARTS, parse_toml
from coordinator.file_reading import UnreadableFile, read_text
from coordinator.placement.rules import PLACEMENTS, fused
from coordinator.pricing.prices import Architecture, StorageClass, load_prices
from coordinator.registry import Family
from coordinator.rules import scaling, sharing
from coordinator.rules.grouping import GROUPINGS, Cap
from coordinator.rules.league import LEAGUE_RULES
from coordinator.rules.scaling import SCALING_RULES
from coordinator.rules.sharing import BASES, SHARING_MODES
from coordinator.rules.similarity import DISTANCES
from coordinator.rules.trend import TRENDS
from functions.algorithms import registry as algorithms
from functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec
from functions.bounds import (
    LARGEST,
    MOST_AGENTS,
    MOST_ENV_STEPS,
    MOST_ENVS,
    MOST_EPISODES,
    MOST_INT,
    MOST_ROLLOUTS,
    MOST_ROUNDS,
    MOST_SEED,
    MOST_STEPS,
)
from functions.contract import BadRequest, MissingExtra, Rows
from functions.encoding import Undecodable
from functions.environments import registry
from functions.environments.base import EnvTask
from functions.text.redaction import is_secret, learn, placeholder

# The class of the table `algorithm` depends on its key `name`; plug-ins add classes.
if TYPE_CHECKING:
    AnyConfig = AlgorithmConfig
else:
    AnyConfig = Any

DEFAULT_ROUNDS = 400
RANDOM = "random"
# What `algorithm.network` may be besides a factory of one's own.
NETWORKS = ("mlp", "gru", "cnn", "attention")
# Lambda's largest function, MB.
MOST_MB = 10_240

_ALGORITHM = "mappo"
# `EnvTask` is defined in `functions`, without descriptions.
_TASK_KEYS = {
    "task.name": "the environment, such as mpe/simple_spread, or pettingzoo:package.module:factory",
    "task.agents": "number of agents, adversaries included; default: the environment's own",
    "task.options": "keyword arguments of the environment",
    "task.last_action": "observations end with the agent's last action, for recurrent networks",
}


# Measurements that scaling rules need, for messages.
_MEASURED = {"noise": "the gradient noise", "curvature": "the curvature of the loss"}
# The keys that name a rule, and the rules that they may name.
RULES: dict[str, Family[Any]] = {
    "trend.rule": TRENDS,
    "sharing.rule": SHARING_MODES,
    "sharing.distance": DISTANCES,
    "sharing.grouping": GROUPINGS,
    "sharing.base": BASES,
    "scaling.rule": SCALING_RULES,
    "placement.rule": PLACEMENTS,
    "league.rule": LEAGUE_RULES,
}


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

    rule: Annotated[str, Meta(description=TRENDS.described())] = "significant"
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

    rule: Annotated[str, Meta(description=SHARING_MODES.described())] = "none"
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
    distance: Annotated[str, Meta(description=f"between policies: {DISTANCES.described()}")] = "jsd"
    grouping: Annotated[str, Meta(description=GROUPINGS.described())] = "linkage"
    cap: Annotated[
        Cap | Annotated[int, Meta(ge=1, le=MOST_AGENTS)],
        Meta(description="most groups of kmeans in a class: a number, or by the paper's text or figure"),
    ] = "text"
    epsilon: Annotated[
        float, Meta(gt=0, le=LARGEST, description="linkage merges agents closer than this, with confidence")
    ] = 0.1
    confidence: Annotated[float, Meta(gt=0, lt=1, description="confidence that a distance is below epsilon")] = 0.95
    base: Annotated[str, Meta(description=f"networks that a new group starts from: {BASES.described()}")] = "distil"
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
    trial_episodes: Annotated[int, Meta(ge=2, le=10_000, description="most episodes of a trial for each team")] = 1600


class Scaling(Section, frozen=True, kw_only=True):
    """How many rollouts a round samples."""

    rule: Annotated[str, Meta(description=SCALING_RULES.described())] = "constant"
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

    rule: Annotated[str, Meta(description=PLACEMENTS.described())] = "fused"
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


class Evaluation(Section, frozen=True, kw_only=True):
    """Greedy episodes on fresh start states."""

    every: Annotated[int, Meta(ge=1, le=MOST_ROUNDS, description="rounds between evaluations")] = 10
    episodes: Annotated[
        int, Meta(ge=2, le=MOST_EPISODES, description="episodes of an evaluation; the absolute metric takes ten times")
    ] = 320
    final_episodes: Annotated[
        int, Meta(ge=2, le=MOST_EPISODES, description="episodes for the return of the final policies")
    ] = 3200
    episodes_per_invocation: Annotated[
        int, Meta(ge=1, le=MOST_EPISODES, description="episodes in one evaluator invocation")
    ] = 3200
    side: (
        Annotated[int, Meta(ge=0, le=MOST_AGENTS, description="side whose return counts; default: the largest")] | None
    ) = None


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

    rule: Annotated[str, Meta(description=LEAGUE_RULES.described())] = "none"
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


class Functions(Section, frozen=True, kw_only=True):
    """The functions' sizes."""

    actor: Function = Function()
    learner: Function = Function()
    evaluator: Function = Function()


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
    algorithm: AnyConfig = field(default_factory=lambda: algorithms.algorithm(_ALGORITHM).config())
    actors: Actors = Actors()
    trend: Trend = Trend()
    sharing: Sharing = Sharing()
    scaling: Scaling = Scaling()
    placement: Placement = Placement()
    evaluation: Evaluation = Evaluation()
    opponents: Opponents = Opponents()
    league: League = League()
    offline: Offline = Offline()
    stop: Stop = Stop()
    functions: Functions = Functions()
    pricing: Pricing = Pricing()
    log: Log = Log()

    def __post_init__(self) -> None:
        if not isinstance(self.algorithm, AlgorithmConfig):
            msgspec.structs.force_setattr(self, "algorithm", _convert_algorithm(self.algorithm))

    def effective(self) -> Self:
        """The configuration, with a limit of `DEFAULT_ROUNDS` rounds if it has no limit."""
        if any(value is not None for value in msgspec.structs.asdict(self.stop).values()):
            return self
        return msgspec.structs.replace(self, stop=Stop(rounds=DEFAULT_ROUNDS))


def load(path: Path | None, overrides: Iterable[str] = ()) -> RunConfig:
    """The configuration of a TOML file (or the defaults) with `key=value` overrides; raises `ConfigError`."""
    document = {} if path is None else read_toml(path)
    for text in overrides:
        override(document, text)
    return convert(document, where="the command line" if path is None else str(path))


def convert(document: Mapping[str, Any], where: str) -> RunConfig:
    """A parsed document as a configuration; raises `ConfigError` naming the key in `where`."""
    name = _algorithm_name(document)
    try:
        algorithms.algorithm(name)
    except (BadRequest, MissingExtra) as error:
        raise ConfigError(f"{where}: algorithm.name: {error}") from error
    _refuse_unknown(document, where, name)
    document = fill_defaults(document, valid_keys(name))
    try:
        config = msgspec.convert(_add_default_names(document), RunConfig)
        config = _with_engine(_with_memory(_share_by_default(config, document))).effective()
        config = _anneal_by_default(_pack_by_default(config, document), document)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_readable(str(error), name, document)}") from error
    if impossible := _impossible(config):
        raise ConfigError(f"{where}: {impossible}")
    _learn_secrets(config.task, where)
    return config


def _learn_secrets(task: EnvTask, where: str) -> None:
    """What the program says from now on has the names of options in place of their values, where these are secret."""
    for name, value in task.options.items():
        key = f"task.options.{name}"
        if is_secret(name) and isinstance(value, str):
            if value in (placeholder(name), placeholder(key)):
                raise ConfigError(f"{where}: {key} has its name for a value, as in a file that was given away; set it")
            learn(key, value)


def _share_by_default(config: RunConfig, document: Mapping[str, Any]) -> RunConfig:
    """With the groups by hand, if there are any, unless the document sets `sharing.rule`; else with shared networks for
    algorithms with a replay buffer: all published settings share, and with separate networks agents learned more slowly
    here, see docs/data/algorithms.toml."""
    by_hand = config.sharing.groups is not None
    if "rule" in document.get("sharing", {}) or not (by_hand or config.algorithm.replayed_steps):
        return config
    rule = "groups" if by_hand else "all"
    return msgspec.structs.replace(config, sharing=msgspec.structs.replace(config.sharing, rule=rule))


def _with_memory(config: RunConfig) -> RunConfig:
    """With `recurrent` in place of the network `gru`, which is a perceptron whose last hidden layer is a GRU."""
    algorithm = config.algorithm
    if algorithm.network != "gru" or not hasattr(algorithm, "recurrent"):
        return config
    return msgspec.structs.replace(config, algorithm=msgspec.structs.replace(algorithm, network="mlp", recurrent=True))


def _with_engine(config: RunConfig) -> RunConfig:
    """With the faster engine in place of `auto`: numpy on the CPU, see docs/results/engines.md; torch where numpy
    cannot."""
    if config.algorithm.engine != "auto":
        return config
    engine = "numpy" if config.algorithm.device == "cpu" and not config.algorithm.needs_torch else "torch"
    return msgspec.structs.replace(config, algorithm=msgspec.structs.replace(config.algorithm, engine=engine))


def _pack_by_default(config: RunConfig, document: Mapping[str, Any]) -> RunConfig:
    """With all learners in one invocation for algorithms whose learners exchange tensors in every update of a round,
    unless the document sets `placement.rule`."""
    updates = config.algorithm.updates_per_round
    if "rule" in document.get("placement", {}) or updates == 1:
        return config
    if len(fused(algorithms.algorithm(config.algorithm.name).stages, [0], 2)) == 1:
        return config
    return msgspec.structs.replace(config, placement=msgspec.structs.replace(config.placement, rule="packed"))


def _anneal_by_default(config: RunConfig, document: Mapping[str, Any]) -> RunConfig:
    """With PPO's step size and entropy bonus falling to 0 where that was measured, for perceptrons, if steps or rounds
    limit the run and the document sets none of these settings: both can then be larger at first."""
    algorithm, settings = config.algorithm, PPO_TASKS.get(config.task.name, {})
    limited = config.stop.rounds is not None or config.stop.env_steps is not None
    has_them = settings.keys() <= {*algorithm.__struct_fields__} and algorithm.name in algorithms.ALGORITHMS
    if (
        not (limited and has_them and algorithm.network == "mlp" and (config.task.agents or 0) <= FEW)
        or settings.keys() & document.get("algorithm", {}).keys()
    ):
        return config
    return msgspec.structs.replace(config, algorithm=msgspec.structs.replace(algorithm, **settings))


def _convert_algorithm(document: Any) -> AlgorithmConfig:
    """The table `algorithm` as its algorithm's configuration class; raises `ValueError` with the place."""
    spec = algorithms.algorithm(_algorithm_name({"algorithm": document}))
    try:
        return msgspec.convert(document, spec.config)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        raise ValueError(f"{text} - at `$.algorithm{place or '`'}") from error


def _algorithm_name(document: Mapping[str, Any]) -> str:
    """The algorithm that a document names; the default one if the name is not a string."""
    table = document.get("algorithm")
    name = table.get("name", _ALGORITHM) if isinstance(table, Mapping) else _ALGORITHM
    return name if isinstance(name, str) else _ALGORITHM


def _impossible(config: RunConfig) -> str:
    """The first value that is invalid although its type is right, and why; '' when all are valid."""
    if (
        impossible := _unstorable(config)
        or _unknown_rule(config)
        or _unencodable(config)
        or _bad_groups(config)
        or _bad_rows(config)
        or _bad_engine(config)
        or _endless_schedule(config)
        or _conflicting_rules(config)
    ):
        return impossible
    if config.stop.dollars is not None and config.pricing.storage == "express":
        return "stop.dollars: a cap cannot be kept with pricing.storage = express, where bytes cost too; use standard"
    try:
        load_prices(config.pricing.region)
    except ValueError as error:
        return f"pricing.region: {error}"
    return "" if registry.known(config.task.name) else f"task.name: {registry.unknown(config.task.name)}"


def _unknown_rule(config: RunConfig) -> str:
    """The first rule that is unknown or cannot be loaded, as a message; '' without one."""
    for key, family in RULES.items():
        section, field_ = key.split(".")
        name = getattr(getattr(config, section), field_)
        try:
            family[name]
        except KeyError:
            return f"{key}: {family.unknown(name)}"
        except BadRequest as error:
            return f"{key}: {error}"
    return ""


def _unencodable(config: RunConfig) -> str:
    """The first setting of the algorithm that messages cannot encode, as a message; '' without one."""
    try:
        algorithms.hyperparameters(config.algorithm)
    except BadRequest as error:
        return f"algorithm.{error}"
    return ""


def _bad_groups(config: RunConfig) -> str:
    """Why the groups by hand are invalid for any task, as a message; '' when they are not."""
    if SHARING_MODES[config.sharing.rule].by_hand and config.sharing.groups is None:
        return f'sharing.groups: sharing.rule={config.sharing.rule} needs them, such as [["agent_0", "agent_1"]]'
    named = [agent for group in config.sharing.groups or () for agent in group]
    doubled = next((agent for agent, times in Counter(named).items() if times > 1), None)
    return f"sharing.groups: {doubled} is named twice; an agent is in one group" if doubled is not None else ""


def _bad_rows(config: RunConfig) -> str:
    """Why groups cannot learn from one member's share, as a message; '' when they can."""
    name = config.algorithm.name
    if config.sharing.rows == "pooled" or algorithms.algorithm(name).member_rows:
        return ""
    why = "does not say that it can learn from a share of them"
    if config.algorithm.replayed_steps:
        why = "draws minibatches of algorithm.batch_size out of earlier rounds, so that fewer new ones save nothing"
    return f"sharing.rows=member leaves out rows, and {name} {why}; use pooled"


# Settings of perceptrons and GRUs that other networks do not have, and why.
_PERCEPTRONS_ALONE = {
    "recurrent": "has no hidden state",
    "layer_norm": "has norms of its own, or none",
    "normalise_observations": "takes observations as they are",
}


def _bad_engine(config: RunConfig) -> str:
    """Why the engine cannot compute the networks, as a message; '' when it can."""
    settings = config.algorithm
    if settings.engine == "numpy" and settings.device != "cpu":
        return f"algorithm.device: numpy does not compute on {settings.device}; set algorithm.engine=torch"
    if settings.network == "mlp":
        without = settings.needs_torch and settings.engine == "numpy"
        return "algorithm.engine: numpy computes no torch modules; set algorithm.engine=torch" if without else ""
    if settings.network not in NETWORKS and ":" not in settings.network:
        nearest = difflib.get_close_matches(settings.network, NETWORKS, n=1)
        hint = f"did you mean {nearest[0]}? " if nearest else ""
        known = ", ".join(NETWORKS)
        return f"algorithm.network: {settings.network!r} is no network; {hint}It is {known}, or package.module:factory"
    if settings.engine == "numpy":
        return f"algorithm.network: numpy does not compute {settings.network}; set algorithm.engine=torch"
    for name, why in _PERCEPTRONS_ALONE.items():
        if getattr(settings, name, False):
            return f"algorithm.{name}: {settings.network} {why}; set algorithm.network=mlp"
    return _curvature_without_perceptrons(config)


def _curvature_without_perceptrons(config: RunConfig) -> str:
    """Which rule needs the Hessian of a network that is no perceptron, as a message; '' when none does."""
    if "curvature" in scaling.needs(config.scaling.rule):
        return f"scaling.rule={config.scaling.rule} needs the curvature of the loss, which only mlp has; use gns"
    if SHARING_MODES[config.sharing.rule].switches and "curvature" in BASES[config.sharing.base].needs:
        return f"sharing.base={config.sharing.base} needs the curvature of the loss, which only mlp has; use distil"
    return ""


def _endless_schedule(config: RunConfig) -> str:
    """Why a setting cannot fall over the run, as a message; '' when it can."""
    if config.stop.rounds is not None or config.stop.env_steps is not None:
        return ""
    falling = [name for name, kind in config.algorithm.schedules.items() if kind != "constant"]
    if not falling:
        return ""
    return f"algorithm.{falling[0]} falls over the run, whose length is not known; set stop.env_steps or stop.rounds"


def _conflicting_sharing(config: RunConfig, summaries: tuple[str, ...]) -> str:
    """Why agents of an algorithm with these summaries cannot share by the rule, as a message; '' when they can."""
    name, mode = config.algorithm.name, SHARING_MODES[config.sharing.rule]
    if mode.switches and DISTANCES[config.sharing.distance].needs not in summaries:
        fit = ", ".join(rule for rule in DISTANCES.built_in if DISTANCES[rule].needs in summaries)
        if not fit:
            return f"sharing.rule: teams of {name} cannot change during a run; use none or all"
        return f"sharing.distance: policies of {name} cannot be compared by {config.sharing.distance}; use one of {fit}"
    if mode.roles and "rewards" not in summaries:
        return f"sharing.rule={config.sharing.rule} compares rewards, which learners of {name} do not; use dynamic"
    return ""


def _conflicting_rules(config: RunConfig) -> str:
    """The first pair of rules or settings that exclude each other, as a message; '' without one."""
    name = config.algorithm.name
    summaries: tuple[str, ...] = algorithms.algorithm(name).summaries
    if conflict := _conflicting_sharing(config, summaries):
        return conflict
    if not set(scaling.needs(config.scaling.rule)) <= set(summaries):
        rule = config.scaling.rule
        needed = " and ".join(_MEASURED.get(summary, summary) for summary in scaling.needs(rule))
        return f"scaling.rule={rule} needs {needed}, which learners of {name} do not report; use constant"
    if conflict := _conflicting_scaling(config):
        return conflict
    if config.opponents.side is None and config.opponents.policies != RANDOM:
        return "opponents.policies: name the side that does not learn as opponents.side"
    if conflict := _conflicting_league(config) or _conflicting_offline(config):
        return conflict
    if config.placement.inline_objects and config.algorithm.replayed_steps:
        return f"placement.inline_objects: {name} learns from earlier rounds, which stay in storage; leave it false"
    if config.placement.deadline_s is not None and config.placement.dollars_per_hour is not None:
        return "placement.deadline_s: give a deadline or placement.dollars_per_hour, not both"
    return ""


def _conflicting_league(config: RunConfig) -> str:
    """Which setting a league excludes, as a message; '' when it excludes none."""
    rule, placement = config.league.rule, PLACEMENTS[config.placement.rule]
    if LEAGUE_RULES[rule].weights is None:
        return "" if config.league.script is None else "league.script: there is no league; set league.rule=prioritised"
    if config.opponents.side is not None:
        return f"league.rule={rule}: side {config.opponents.side} does not learn (opponents.side); leave one out"
    if placement.one_function or placement.planned:
        return f"league.rule={rule}: placement.rule={config.placement.rule} may play without actors; use fused"
    if config.scaling.rollouts < 2:
        return f"league.rule={rule}: a round's first rollout is not against checkpoints; set scaling.rollouts=4"
    return ""


def _conflicting_offline(config: RunConfig) -> str:
    """Why the algorithm cannot learn from what the run gives it, as a message; '' when it can."""
    name = config.algorithm.name
    imitates = algorithms.algorithm(name).imitates
    if config.offline.dataset is None:
        needed = f"algorithm.name: {name} imitates recorded episodes; name their folder: offline.dataset"
        return needed if imitates else ""
    if not imitates and not config.algorithm.replayed_steps:
        fit = ", ".join(spec.name for spec in algorithms.BUILT_IN if spec.imitates or spec.config().replayed_steps)
        return f"offline.dataset: {name} learns from its own newest policies alone; use one of {fit}"
    if config.opponents.side is not None:
        return "offline.dataset: all agents act as they were recorded; leave opponents.side out"
    if LEAGUE_RULES[config.league.rule].weights is not None:
        return "offline.dataset: all agents act as they were recorded; leave league.rule out"
    return ""


def _conflicting_scaling(config: RunConfig) -> str:
    """What is missing or excluded in the table `scaling`, as a message; '' without fault."""
    settings, stop, rule = config.scaling, config.stop, SCALING_RULES[config.scaling.rule]
    if settings.min_rollouts is not None and settings.min_rollouts > settings.rollouts:
        return f"scaling.min_rollouts: {settings.min_rollouts} is more than scaling.rollouts ({settings.rollouts})"
    if settings.priced_as is not None and settings.priced_as not in PLACEMENTS:
        return f"scaling.priced_as: {PLACEMENTS.unknown(settings.priced_as)}"
    if rule.spends and (stop.dollars is None or stop.rounds is None):
        return f"scaling.rule={settings.rule} divides dollars among rounds; set stop.dollars and stop.rounds"
    if rule.returns and stop.return_ is None:
        return f"scaling.rule={settings.rule} compares returns with a target; set stop.return"
    return ""


def _unstorable(config: RunConfig) -> str:
    """The first value that no file or message of a run can hold, as a message; '' without one."""
    for key, value in flatten(msgspec.to_builtins(config)).items():
        match value:
            case float() if not math.isfinite(value):
                return f"{key}: {value} is not a finite number"
            case int() if abs(value) > MOST_INT:
                return f"{key}: {value:.0e} is a larger whole number than messages hold ({MOST_INT:,})"
            case str() if f"{key}{value}".encode(errors="ignore").decode() != f"{key}{value}":
                return f"{key}: it is not valid Unicode text"
    return ""


def _add_default_names(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the default name in the tables `task` and `algorithm` if they have none."""
    completed = dict(document)
    for table, default in (("task", RunConfig().task.name), ("algorithm", _ALGORITHM)):
        if isinstance(completed.get(table), Mapping):
            completed[table] = {"name": default, **completed[table]}
    return completed


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file; raises `ConfigError`."""
    try:
        return parse_toml(read_text(path, MOST_BYTES))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}; give a TOML file, or key=value pairs") from error
    except UnreadableFile as error:
        raise ConfigError(str(error)) from error
    except Undecodable as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def override(document: dict[str, Any], text: str) -> None:
    """Sets a dotted key of `document` from `key=value`, the value as TOML or else a string; raises `ConfigError`."""
    key, equals, value = text.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise ConfigError(f"{text!r} is not key=value, such as algorithm.lr=3e-4")
    if len(names) > MOST_PARTS:
        raise ConfigError(f"{key[:40]}...: a key has at most {MOST_PARTS} parts")
    table = document
    for name in names[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{key}: {name} is a value, not a table")
    try:
        table[names[-1]] = parse_toml(f"value = {value}")["value"]
    except Undecodable:
        table[names[-1]] = value


def valid_keys(algorithm: str | None = None) -> dict[str, str]:
    """Every key a user can set, dotted, with its description; `algorithm` picks the hyper-parameters listed.

    Raises `BadRequest` for an unknown algorithm.
    """
    return _keys(RunConfig, algorithms.algorithm(algorithm or _ALGORITHM), "")


def explained_keys(algorithm: str | None = None) -> dict[str, str]:
    """As `valid_keys`, with the rules of other packages explained too."""
    return valid_keys(algorithm) | {key: family.described(plug_ins=True) for key, family in RULES.items()}


def _keys(struct: type[msgspec.Struct], algorithm: AlgorithmSpec, prefix: str) -> dict[str, str]:
    keys: dict[str, str] = {}
    for item in _fields(struct):
        name = f"{prefix}{item.encode_name}"
        if name == "algorithm":
            keys["algorithm.name"] = f"one of {', '.join(algorithms.names())}"
            keys |= _keys(algorithm.config, algorithm, "algorithm.")
        elif isinstance(item.type, type) and issubclass(item.type, msgspec.Struct):
            keys |= _keys(item.type, algorithm, f"{name}.")
        else:
            keys[name] = _TASK_KEYS.get(name) or description(item.type)
    return keys


@lru_cache(maxsize=256)
def _fields(struct: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of a table; a list of many runs asks for them many times."""
    return msgspec.structs.fields(struct)


def description(annotation: Any) -> str:
    """The description in an annotated type, or in a member of a union."""
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description:
            return meta.description
    return next((text for part in get_args(annotation) if (text := description(part))), "")


def _refuse_unknown(document: Mapping[str, Any], where: str, algorithm: str) -> None:
    keys = valid_keys(algorithm)
    tables = {".".join(key.split(".")[:depth]) for key in keys for depth in range(1, key.count(".") + 1)}
    for key in _flatten(document, tables):
        if key not in keys and not key.startswith("task.options."):
            if new := RENAMED.get(key):
                raise ConfigError(f"{where}: {key} is now called {new}")
            if others := _others_with(key):
                raise ConfigError(f"{where}: {key} is a key of {others}, not of {algorithm}")
            nearest = difflib.get_close_matches(key, [*keys, *tables], n=1, cutoff=0.4)
            hint = f"; did you mean {nearest[0]}?" if nearest else "; `marless config` lists all keys"
            raise ConfigError(f"{where}: there is no key {key}{hint}")


def _others_with(key: str) -> str:
    """The algorithms that have the key, in words; '' when none has."""
    owners: list[str] = []
    for name in algorithms.names():
        # A plug-in that does not load is no fault of this configuration.
        with suppress(BadRequest, MissingExtra):
            owners += [name] if key in valid_keys(name) else []
    return " and ".join(filter(None, (", ".join(owners[:-1]), *owners[-1:])))


def _flatten(document: Mapping[str, Any], tables: set[str], prefix: str = "") -> Iterable[str]:
    """Dotted keys of a document, without keys that should be tables but are not: the type check refuses these."""
    for name, value in document.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and (key in tables or key == "task.options"):
            yield from _flatten(value, tables, f"{key}.")
        elif key not in tables:
            yield key


def _readable(message: str, algorithm: str, document: Mapping[str, Any]) -> str:
    """A validation message with the key first, in the user's notation, and the key's meaning."""
    text, _, place = message.partition(" - at `$.")
    key = place.rstrip("`")
    # msgspec does not name the keys of a dict.
    if key == "task.options[...]":
        options = document["task"]["options"].items()
        key = next(f"task.options.{name}" for name, value in options if not isinstance(value, str | int | float))
    means = valid_keys(algorithm).get(key)
    return f"{key}: {text}" + (f" ({means})" if means else "") if key else text
