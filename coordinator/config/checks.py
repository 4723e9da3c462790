"""Checks of a configuration beyond its types: values that do not exist, and settings that exclude each other.

A check is a generator of messages that begin with the key. The user sees the first message of all checks.
"""

import difflib
import math
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from marless.coordinator.config.config_keys import RULES
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import RANDOM, RunConfig
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.pricing.prices import load_prices
from marless.coordinator.rules import scaling
from marless.coordinator.rules.league import LEAGUE_RULES
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.coordinator.rules.sharing import BASES, SHARING_MODES
from marless.coordinator.rules.similarity import DISTANCES
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import CLOSED_FORMS, LAYERED
from marless.functions.environments import language_task_names
from marless.functions.environments.task_names import ENVIRONMENTS, is_known
from marless.functions.errors import BadRequest
from marless.functions.function_specs import KINDS, function_at
from marless.functions.resources.settings import NAME as RESOURCE_NAME
from marless.functions.setting_limits import MOST_INT

# The built-in values of `algorithm.network`. A reference to a factory is allowed, too.
NETWORKS = ("mlp", "gru", "cnn", "attention")
# Settings of perceptrons and GRUs that other networks do not have, and why.
_PERCEPTRONS_ALONE = {
    "recurrent": "has no hidden state",
    "layer_norm": "has norms of its own, or none",
    "normalise_observations": "takes observations as they are",
}
# Measurements that scaling rules need, for messages.
_MEASUREMENTS = {"noise": "the gradient noise", "curvature": "the curvature of the loss"}


def fault(config: RunConfig) -> str:
    """Return the first value that is invalid although its type is right, with the reason, or ''."""
    return next((message for check in CHECKS for message in check(config)), "")


def _is_storable(config: RunConfig) -> Iterator[str]:
    # No file or message of a run can hold other values.
    for key, value in flatten(msgspec.to_builtins(config)).items():
        match value:
            case float() if not math.isfinite(value):
                yield f"{key}: {value} is not a finite number"
            case int() if abs(value) > MOST_INT:
                yield f"{key}: {value:.0e} is a larger whole number than messages hold ({MOST_INT:,})"
            case str() if f"{key}{value}".encode(errors="ignore").decode() != f"{key}{value}":
                yield f"{key}: it is not valid Unicode text"


def _rules_exist(config: RunConfig) -> Iterator[str]:
    # Each rule has a known name, and can be loaded.
    for key, family in RULES.items():
        section, field = key.split(".")
        name = getattr(getattr(config, section), field)
        try:
            family[name]
        except KeyError:
            yield f"{key}: {family.unknown(name)}"
        except BadRequest as error:
            yield f"{key}: {error}"


def _is_encodable(config: RunConfig) -> Iterator[str]:
    try:
        algorithms.hyperparameters(config.algorithm)
    except BadRequest as error:
        yield f"algorithm.{error}"


def _groups(config: RunConfig) -> Iterator[str]:
    if SHARING_MODES[config.sharing.rule].groups_from_config and config.sharing.groups is None:
        yield f'sharing.groups: sharing.rule={config.sharing.rule} needs them, such as [["agent_0", "agent_1"]]'
    members = Counter(agent for group in config.sharing.groups or () for agent in group)
    for agent, groups in members.items():
        if groups > 1:
            yield f"sharing.groups: {agent} is named twice; an agent is in one group"


def _rows(config: RunConfig) -> Iterator[str]:
    name = config.algorithm.name
    if config.sharing.rows == "pooled" or algorithms.algorithm(name).member_rows:
        return
    why = "does not say that it can learn from a share of them"
    if config.algorithm.replayed_steps:
        why = "draws minibatches of algorithm.batch_size out of earlier rounds, so that fewer new ones save nothing"
    yield f"sharing.rows=member leaves out rows, and {name} {why}; use pooled"


def _engine(config: RunConfig) -> Iterator[str]:
    settings = config.algorithm
    closed_forms = settings.engine in CLOSED_FORMS
    if closed_forms and settings.device != "cpu":
        yield f"algorithm.device: {settings.engine} does not compute on {settings.device}; set algorithm.engine=torch"
    if settings.network in LAYERED:
        if settings.needs_torch and closed_forms:
            yield f"algorithm.engine: {settings.engine} computes no torch modules; set algorithm.engine=torch"
        return
    if settings.network not in NETWORKS and ":" not in settings.network:
        nearest = difflib.get_close_matches(settings.network, NETWORKS, n=1)
        hint = f"did you mean {nearest[0]}? There are" if nearest else "there are"
        names = ", ".join(NETWORKS)
        yield f"algorithm.network: {settings.network!r} is no network; {hint} {names}, and package.module:factory"
    if closed_forms:
        yield f"algorithm.network: {settings.engine} does not compute {settings.network}; set algorithm.engine=torch"


def _perceptrons_alone(config: RunConfig) -> Iterator[str]:
    settings, sharing = config.algorithm, config.sharing
    if settings.network == "mlp":
        return
    for name, why in _PERCEPTRONS_ALONE.items():
        if getattr(settings, name, False):
            yield f"algorithm.{name}: {settings.network} {why}; set algorithm.network=mlp"
    if "curvature" in scaling.needs(config.scaling.rule):
        yield f"scaling.rule={config.scaling.rule} needs the curvature of the loss, which only mlp has; use gns"
    if SHARING_MODES[sharing.rule].switches and "curvature" in BASES[sharing.base].needs:
        yield f"sharing.base={sharing.base} needs the curvature of the loss, which only mlp has; use distil"


def _length(config: RunConfig) -> Iterator[str]:
    if config.preset is not None:
        yield "preset: it sets the number of rounds, and so do stop.rounds and stop.env_steps; keep one of them"


def _schedules(config: RunConfig) -> Iterator[str]:
    if config.stop.rounds is not None or config.stop.env_steps is not None:
        return
    for name, kind in config.algorithm.schedules.items():
        if kind != "constant":
            yield f"algorithm.{name} falls over the run, whose length is not known; set stop.env_steps or stop.rounds"


def _sharing(config: RunConfig) -> Iterator[str]:
    name, mode = config.algorithm.name, SHARING_MODES[config.sharing.rule]
    summaries: tuple[str, ...] = algorithms.algorithm(name).summaries
    distance = config.sharing.distance
    if mode.switches and DISTANCES[distance].needs not in summaries:
        fit = ", ".join(rule for rule in DISTANCES.built_in if DISTANCES[rule].needs in summaries)
        if not fit:
            yield f"sharing.rule: teams of {name} cannot change during a run; use none or all"
        yield f"sharing.distance: policies of {name} cannot be compared by {distance}; use one of {fit}"
    if mode.roles and "rewards" not in summaries:
        yield f"sharing.rule={config.sharing.rule} compares rewards, which learners of {name} do not; use dynamic"


def _scaling(config: RunConfig) -> Iterator[str]:
    settings, stop, rule = config.scaling, config.stop, SCALING_RULES[config.scaling.rule]
    name, needs = config.algorithm.name, scaling.needs(settings.rule)
    if not set(needs) <= set(algorithms.algorithm(name).summaries):
        measurements = " and ".join(_MEASUREMENTS.get(summary, summary) for summary in needs)
        yield f"scaling.rule={settings.rule} needs {measurements}, which learners of {name} do not report; use constant"
    if (settings.min_rollouts or 0) > (most := config.actors.rollouts):
        yield f"scaling.min_rollouts: {settings.min_rollouts} is more than actors.rollouts ({most})"
    if settings.priced_as is not None and settings.priced_as not in PLACEMENTS:
        yield f"scaling.priced_as: {PLACEMENTS.unknown(settings.priced_as)}"
    if rule.spends and (stop.dollars is None or stop.rounds is None):
        yield f"scaling.rule={settings.rule} divides dollars among rounds; set stop.dollars and stop.rounds"
    if rule.returns and stop.return_ is None:
        yield f"scaling.rule={settings.rule} compares returns with a target; set stop.return"


def _opponents(config: RunConfig) -> Iterator[str]:
    if config.opponents.side is None and config.opponents.policies != RANDOM:
        yield "opponents.policies: name the side that does not learn as opponents.side"


def _league(config: RunConfig) -> Iterator[str]:
    rule, placement = config.league.rule, PLACEMENTS[config.placement.rule]
    if LEAGUE_RULES[rule].weights is None:
        if config.league.script is not None:
            yield "league.script: there is no league; set league.rule=prioritised"
        return
    if config.opponents.side is not None:
        yield f"league.rule={rule}: side {config.opponents.side} does not learn (opponents.side); leave one out"
    if placement.one_function:
        yield f"league.rule={rule}: placement.rule={config.placement.rule} plays without actors; use balanced"
    if config.actors.rollouts < 2:
        yield f"league.rule={rule}: a round's first rollout is not against checkpoints; set actors.rollouts=4"


def _offline(config: RunConfig) -> Iterator[str]:
    name = config.algorithm.name
    imitates = algorithms.algorithm(name).imitates
    if config.offline.dataset is None:
        if imitates:
            yield f"algorithm.name: {name} imitates recorded episodes; name their folder: offline.dataset"
        return
    if not imitates and not config.algorithm.replayed_steps:
        ours = algorithms.ALGORITHMS.ours()
        fit = ", ".join(spec.name for spec in ours if spec.imitates or spec.config().replayed_steps)
        yield f"offline.dataset: {name} learns from its own newest policies alone; use one of {fit}"
    if config.opponents.side is not None:
        yield "offline.dataset: all agents act as they were recorded; leave opponents.side out"
    if LEAGUE_RULES[config.league.rule].weights is not None:
        yield "offline.dataset: all agents act as they were recorded; leave league.rule out"


def _evaluations(config: RunConfig) -> Iterator[str]:
    if not config.evaluation.greedy and config.algorithm.behaviour(0).kind != "sample":
        yield f"evaluation.greedy=false: {config.algorithm.name} learns no probabilities of actions; leave it out"


def _base(config: RunConfig) -> Iterator[str]:
    """Differences to a base exist for perceptrons and GRUs of fixed groups."""
    name, settings, rule = config.algorithm.name, config.algorithm, config.sharing.rule
    if config.base.policies is None:
        return
    if not algorithms.algorithm(name).adapts:
        fit = ", ".join(spec.name for spec in algorithms.ALGORITHMS.ours() if spec.adapts)
        yield f"base.policies: {name} trains whole networks alone; use one of {fit}"
    if settings.network != "mlp":
        yield f"base.policies: {settings.network} has no differences of low rank; set algorithm.network=mlp or gru"
    if SHARING_MODES[rule].switches:
        yield f"base.policies: sharing.rule={rule} merges networks, whose differences have no low rank; use all or none"


def _placement(config: RunConfig) -> Iterator[str]:
    if config.placement.inline_objects and config.algorithm.replayed_steps:
        name = config.algorithm.name
        yield f"placement.inline_objects: {name} learns from earlier rounds, which stay in storage; leave it false"


def _pipeline(config: RunConfig) -> Iterator[str]:
    if config.pipeline.lag and PLACEMENTS[config.placement.rule].one_function:
        rule = config.placement.rule
        yield f"pipeline.lag: placement.rule={rule} learns and samples in one function, one after the other; use packed"
    if 0 < (config.stop.rounds or 0) <= (lag := config.pipeline.lag):
        yield f"stop.rounds: with pipeline.lag={lag} round {lag + 1} is the first that learns; set {lag + 1} or more"
    if config.pipeline.micro_batch:
        yield from _micro_batches(config)


def _micro_batches(config: RunConfig) -> Iterator[str]:
    """Learning from a round must be a function of sums over its micro-batches alone."""
    name, settings, key = config.algorithm.name, config.algorithm, "pipeline.micro_batch"
    if config.pipeline.lag:
        yield f"{key}: with a lag other weights sampled, and what is learned is no sum; set pipeline.lag=0"
    if not algorithms.algorithm(name).sum_parts:
        *others, last = (spec.name for spec in algorithms.ALGORITHMS.ours() if spec.sum_parts)
        fit = f"{', '.join(others)} and {last}"
        yield f"{key}: {name} has no sums over a part of a round, as {fit} have; set {key}=0"
    if settings.passes:
        yield f"{key}: {name} {settings.passes}, or pipeline.lag=1 and {key}=0"
    rows = "every row's advantage, which sums do not keep"
    if {"noise", "curvature"} & {*scaling.needs(config.scaling.rule)}:
        yield f"{key}: scaling.rule={config.scaling.rule} reads {rows}; set scaling.rule=constant"
    if SHARING_MODES[config.sharing.rule].switches and "curvature" in BASES[config.sharing.base].needs:
        yield f"{key}: sharing.base={config.sharing.base} reads {rows}; set sharing.base=distil"


def _resources(config: RunConfig) -> Iterator[str]:
    # Names of resources are parts of keys, of variables and of functions' names.
    for name in config.resources:
        if not RESOURCE_NAME.fullmatch(name):
            yield f"resources: {name!r} is no name of a resource: small letters, digits and _, such as judge"
    if (judge := config.task.judge) and judge not in config.resources:
        there_are = f"there are {', '.join(config.resources)}" if config.resources else f"set resources.{judge}.serve"
        yield f"task.judge: there is no resource {judge!r}; {there_are}"


def _pricing(config: RunConfig) -> Iterator[str]:
    # The cap can be kept at these prices, and the region has a price list.
    if config.stop.dollars is not None and config.pricing.storage == "express":
        yield "stop.dollars: a cap cannot be kept with pricing.storage = express, where bytes cost too; use standard"
    try:
        load_prices(config.pricing.region)
    except ValueError as error:
        yield f"pricing.region: {error}"


def _task(config: RunConfig) -> Iterator[str]:
    name, learner, teams = config.task.name, config.algorithm.name, len(config.task.teams)
    if teams > config.actors.num_envs:
        yield f"actors.num_envs: {config.actors.num_envs} environments cannot play {teams} teams; set at least {teams}"
    if language_task_names.is_language_task(name):
        if teams > 1:
            yield f"task.agents: {name} does not take a list of team sizes; set one number"
        if learner != language_task_names.ALGORITHM:
            fit = f"set algorithm.name={language_task_names.ALGORITHM}"
            yield f"algorithm.name: in {name} agents speak, which {learner} does not learn; {fit}"
    elif name.startswith(language_task_names.FAMILY):
        yield f"task.name: {language_task_names.unknown_task(name)}"
    elif learner == language_task_names.ALGORITHM:
        there_are = ", ".join((*language_task_names.BUILT_IN, language_task_names.EXAMPLE))
        yield f"task.name: {learner} learns tasks whose agents speak, and {name} is none; there are {there_are}"
    elif not is_known(name):
        yield f"task.name: {ENVIRONMENTS.unknown(name)}"


def _function(config: RunConfig) -> Iterator[str]:
    # The function that serves the algorithm's tasks exists, and takes the configuration.
    name = algorithms.algorithm(config.algorithm.name).function
    try:
        checks = KINDS.lookup(name).checks if name else ""
    except BadRequest as error:
        yield f"algorithm.name: {config.algorithm.name} needs a function: {error}"
        return
    if checks:
        yield from function_at(checks)(config)


def _model(config: RunConfig) -> Iterator[str]:
    if config.base.model is not None and not language_task_names.is_language_task(config.task.name):
        yield f"base.model: {config.algorithm.name} trains no language model; leave it out"


# In this order: later ones rely on rules that exist.
CHECKS: tuple[Callable[[RunConfig], Iterator[str]], ...] = (
    _is_storable,
    _rules_exist,
    _is_encodable,
    _groups,
    _rows,
    _engine,
    _perceptrons_alone,
    _length,
    _schedules,
    _sharing,
    _scaling,
    _opponents,
    _league,
    _offline,
    _evaluations,
    _base,
    _placement,
    _pipeline,
    _resources,
    _pricing,
    _task,
    _function,
    _model,
)
