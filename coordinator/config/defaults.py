"""Defaults that depend on other settings, layer by layer.

A key's default comes from its class (`schema`, or the algorithm's configuration). Later layers override it: the task's
family, the file, the command line, and the layers of `DERIVED`. Each of these derives values from the configuration so
far. Values that depend on the environment's spec are filled in when the run begins (`AlgorithmConfig.resolved`).
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from marless.coordinator.config.nested_tables import flatten, merge, nest
from marless.coordinator.config.schema import PRESETS, Placement, RunConfig, algorithm_name
from marless.coordinator.config.task_defaults import DEFAULT_RUNS, FALLING, FEW, PPO_TASKS, family, family_defaults
from marless.coordinator.placement.placement_rules import AUTO, fused
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import AlgorithmConfig, NetworkConfig
from marless.functions.environments.language_task_names import is_language_task
from marless.functions.environments.task_names import EXACT_PHYSICS
from marless.functions.native.kernels import are_built
from marless.functions.setting_limits import MOST_KERNEL_LAYERS


class Layer(NamedTuple):
    """Values by dotted key, and the origin of these values, in words."""

    origin: str
    values: Mapping[str, Any]


# Each key of these tables, except exact physics, turns the default run off. So does each of `_KEYS`.
_TABLES = ("task", "sharing", "scaling", "opponents", "league", "offline", "base")
_NETWORKS = ("name", "network", "hidden", "recurrent", "layer_norm", "normalise_observations", "critic_input")
_KEYS = {"actors.rollouts", *(f"algorithm.{key}" for key in _NETWORKS)}


def fill_default_run(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the document with the settings of its default run, and by dotted key the layer that set them."""
    keys = flatten(document)
    task = keys.pop("task.name", RunConfig().task.name)
    is_other = any(
        key in _KEYS or key.partition(".")[0] in _TABLES for key in keys.keys() - {f"task.options.{EXACT_PHYSICS}"}
    )
    is_limited = any(key.startswith("stop.") for key in keys) and "preset" not in keys
    unused: tuple[str, ...] = ("stop.", "algorithm.ent_", "algorithm.lr_") if is_limited else ()
    unused = ("stop.",) if keys.keys() & {"stop.rounds", "stop.env_steps"} else unused
    run = {} if is_other or not isinstance(task, str) else flatten(DEFAULT_RUNS.get(task, {}))
    values = {key: value for key, value in run.items() if not key.startswith(unused)}
    preset = keys.get("preset")
    if "stop.rounds" in values and preset in [*PRESETS]:
        values["stop.rounds"] *= PRESETS[preset]
        document = {key: value for key, value in document.items() if key != "preset"}
    return _fill(document, Layer(f"task {task}", values))


def fill_family(document: Mapping[str, Any], keys: Collection[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the document, completed with the values of its task family, and by dotted key the layer that set it.

    Values apply to `keys` and task options. A value in place of a table stays: the type check refuses it later.
    """

    def _with_keys(layer: Layer) -> Layer:
        names = (key for key in layer.values if key in keys or key.startswith("task.options."))
        return layer._replace(values={key: layer.values[key] for key in names})

    return _fill(document, *map(_with_keys, _family_layers(document)))


def _fill(document: Mapping[str, Any], *layers: Layer) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the document over the layers, the weakest first, and by dotted key the layer that set it."""
    values = {key: (value, layer.origin) for layer in layers for key, value in layer.values.items()}
    document_keys = flatten(document)
    origins = {key: origin for key, (_, origin) in values.items() if key not in document_keys}
    return merge(nest({key: value for key, (value, _) in values.items()}), document), origins


def _family_layers(document: Mapping[str, Any]) -> tuple[Layer, ...]:
    """The weakest first."""
    table = document.get("task", {})
    task = table.get("name", RunConfig().task.name) if isinstance(table, Mapping) else None
    if not isinstance(task, str):
        return ()
    algorithm = algorithm_name(document)
    prefix = family(task)
    origin = f"family {prefix or 'of other tasks'}"
    of_algorithm, of_all = family_defaults(prefix, algorithm)
    return Layer(origin, of_all), Layer(f"{origin} with {algorithm}", of_algorithm)


def derive(config: RunConfig, fixed_keys: Collection[str]) -> tuple[RunConfig, dict[str, str]]:
    """The configuration with the values of `DERIVED`, and by dotted key the layer that set it.

    `fixed_keys` were set by the family, the file or the command line.
    """
    origins: dict[str, str] = {}
    for rule in DERIVED:
        if layer := rule(config, fixed_keys):
            tables = nest(layer.values).items()
            sections = {name: _with(getattr(config, name), values) for name, values in tables}
            config = replace(config, **sections)
            origins |= dict.fromkeys(layer.values, layer.origin)
    limited = config.effective()
    if config.preset is not None:
        origins["stop.rounds"] = f"preset={config.preset}"
    return limited, origins


def _with(section: Any, values: Mapping[str, Any]) -> Any:
    """Return the section with these values. Values for an inner table are added to that table."""
    inner = {name: {**getattr(section, name), **value} for name, value in values.items() if isinstance(value, Mapping)}
    return replace(section, **{**values, **inner})


def _shared_networks(config: RunConfig, fixed_keys: Collection[str]) -> Layer | None:
    """Return the groups by hand, if there are any. Otherwise algorithms with a replay buffer and PQN share networks.

    On unmeasured tasks every algorithm shares, except HAPPO, which trains one network after the other.

    All published settings share. Separate networks learned more slowly here (docs/data/algorithms.toml).
    """
    if "sharing.rule" in fixed_keys:
        return None
    if config.sharing.groups is not None:
        return Layer("sharing.groups", {"sharing.rule": "groups"})
    if config.algorithm.shares_networks:
        return Layer(f"algorithm {config.algorithm.name}", {"sharing.rule": "all"})
    is_measured = family(config.task.name) or is_language_task(config.task.name)
    if is_measured or any(stage.in_turn for stage in algorithms.algorithm(config.algorithm.name).stages):
        return None
    return Layer("equal agents", {"sharing.rule": "all"})


def _of_network(config: RunConfig, fixed_keys: Collection[str]) -> Layer | None:
    """Return the settings that a network's name implies.

    `gru` is a perceptron with a GRU as its last hidden layer. Layer norm is off by default with `attention`.
    """
    algorithm = config.algorithm
    if algorithm.network == "gru" and "recurrent" in algorithm.__struct_fields__:
        return Layer("algorithm.network=gru", {"algorithm.network": "mlp", "algorithm.recurrent": True})
    has_norm = getattr(algorithm, "layer_norm", False) and "algorithm.layer_norm" not in fixed_keys
    if algorithm.network == "attention" and has_norm:
        return Layer("algorithm.network=attention", {"algorithm.layer_norm": False})
    return None


_OF_THIS_MACHINE, _OF_NATIVE = "algorithm.engine=auto", "algorithm.engine=native"


def _engine(config: RunConfig, fixed_keys: Collection[str]) -> Layer | None:
    """Return the fastest engine, see docs/results/engines.md. On the CPU it is `native` if this machine has kernels for
    the networks, else `numpy`. It is `torch` if neither works."""
    algorithm = config.algorithm
    if algorithm.engine != "auto":
        return None
    engine = "torch" if algorithm.needs_torch or algorithm.device != "cpu" else "numpy"
    if suits_kernels(algorithm) and are_built():
        engine = "native"
    return Layer(_OF_THIS_MACHINE, {"algorithm.engine": engine})


def for_any_machine(config: RunConfig, origins: dict[str, str]) -> tuple[RunConfig, dict[str, str]]:
    """Return the configuration as a file for any machine: with the engine `auto` if this machine chose the engine.

    The option for exact physics, which follows from the engine, is left out then. The note in the `origins` names the
    engine of this machine. On this machine the file gives the same run.
    """
    if origins.get("algorithm.engine") != _OF_THIS_MACHINE:
        return config, origins
    engine = config.algorithm.engine
    options = dict(config.task.options)
    if origins.get(f"task.options.{EXACT_PHYSICS}") == _OF_NATIVE:
        del options[EXACT_PHYSICS]
    config = replace(
        config,
        algorithm=replace(config.algorithm, engine="auto"),
        task=replace(config.task, options=options),
    )
    return config, {**origins, "algorithm.engine": f"{engine} on this machine"}


def suits_kernels(algorithm: AlgorithmConfig) -> bool:
    """Return whether its networks are perceptrons on the CPU with at most as many layers as kernels take."""
    if not isinstance(algorithm, NetworkConfig) or algorithm.needs_torch or algorithm.device != "cpu":
        return False
    layers = len(getattr(algorithm, "hidden", ())) + 1
    return layers <= MOST_KERNEL_LAYERS and not getattr(algorithm, "recurrent", False)


def lacks_kernels(algorithm: AlgorithmConfig) -> bool:
    """Return whether `numpy` computes networks that kernels could compute, but kernels are missing here."""
    return algorithm.engine == "numpy" and suits_kernels(algorithm) and not are_built()


def _exact_physics(config: RunConfig, fixed_keys: Collection[str]) -> Layer | None:
    """Kernels compute the same bytes on every machine, so their input must have the same bytes too."""
    key = f"task.options.{EXACT_PHYSICS}"
    if config.algorithm.engine != "native" or family(config.task.name) != "mpe/" or key in fixed_keys:
        return None
    return Layer(_OF_NATIVE, {key: True})


def _packed_learners(config: RunConfig, fixed_keys: Collection[str]) -> Layer | None:
    """Choose one invocation for learners that exchange tensors in every update of a round."""
    algorithm = config.algorithm
    if "placement.rule" in fixed_keys or algorithm.updates_per_round == 1:
        return None
    if len(fused(algorithms.algorithm(algorithm.name).stages, [0], 2)) == 1:
        return None
    return Layer(f"algorithm {algorithm.name}", {"placement.rule": "packed"})


def placed_in_cloud(config: RunConfig) -> RunConfig:
    """The configuration of a run in the cloud, where idle slots cost: in place of the default placement the cheapest.

    A placement that packs rollouts or inlines objects is the user's own, and stays.
    """
    placement = config.placement
    is_default = placement.rule == Placement().rule and placement.pack == 1 and not placement.inline_objects
    return cheapest_in_cloud(config) if is_default else config


def cheapest_in_cloud(config: RunConfig) -> RunConfig:
    """Return the configuration with the cheapest placement and the same weights.

    Scaling rules that read list prices still read the prices of the earlier placement.
    """
    placement, scaling = config.placement, config.scaling
    if SCALING_RULES[scaling.rule].floor is not None:
        scaling = replace(scaling, priced_as=scaling.priced_as or placement.rule)
    return replace(config, placement=replace(placement, rule=AUTO), scaling=scaling)


def _annealing(config: RunConfig, fixed_keys: Collection[str]) -> Layer | None:
    """Return PPO's schedules: on measured tasks its step size and entropy bonus begin larger and fall to 0.

    The run must have a limit in steps or rounds, and none of these settings may be fixed.
    """
    settings = {f"algorithm.{name}": value for name, value in _measured_schedule(config).items()}
    if not settings or settings.keys() & fixed_keys or not _has_length(config):
        return None
    return Layer(f"task {config.task.name}", settings)


def unused_schedule(config: RunConfig) -> str:
    """Return the line that names the settings of `_annealing` that this run lacks because its length is unknown.

    The line is '' for a run that lacks none.
    """
    algorithm, settings = config.algorithm, _measured_schedule(config)
    default_run = DEFAULT_RUNS.get(config.task.name, {}).get("algorithm", {})
    if default_run and all(getattr(algorithm, key, "") == default_run[key] for key in default_run.keys() - FALLING):
        settings = FALLING
    usual = type(algorithm)()
    if not settings or _has_length(config) or any(getattr(algorithm, key) != getattr(usual, key) for key in settings):
        return ""
    missing_defaults = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"without stop.rounds or stop.env_steps, this run lacks the defaults {missing_defaults}"


def _measured_schedule(config: RunConfig) -> Mapping[str, Any]:
    """Return the settings of the algorithm that were measured for the task, of perceptrons of few agents."""
    algorithm, task = config.algorithm, config.task
    settings = PPO_TASKS.get(task.name, {})
    is_measured = algorithm.network == "mlp" and max(task.team_sizes, default=0) <= FEW
    is_ours = algorithms.ALGORITHMS.is_ours(algorithm.name)
    return settings if is_measured and is_ours and settings.keys() <= {*algorithm.__struct_fields__} else {}


def _has_length(config: RunConfig) -> bool:
    stop = config.effective().stop
    return stop.rounds is not None or stop.env_steps is not None


# A small language model learns by larger steps, from more episodes.
_SMALL_BASE = {"actors.num_envs": 256, "algorithm.lr": 3e-3, "algorithm.ent_coef": 0.005}


def _small_base(config: RunConfig, fixed_keys: Collection[str]) -> Layer | None:
    """Return the settings of agents that speak by a small base, which is made if `base.model` names no model."""
    if config.algorithm.name != "grpo" or config.base.model is not None:
        return None
    values = {key: value for key, value in _SMALL_BASE.items() if key not in fixed_keys}
    return Layer("a small language model", values) if values else None


# With a lag of 1 V-trace costs 1 to 5 % of the return, as decoupled PPO does. V-trace fails with larger lags
# (docs/results/lag.md).
_MOST_TRACED_LAG = 1


def _correction(config: RunConfig, fixed_keys: Collection[str]) -> Layer | None:
    """Return the layer with decoupled PPO for data that is more than a round old."""
    has_correction = hasattr(config.algorithm, "correction")
    if "algorithm.correction" in fixed_keys or not has_correction or config.pipeline.lag <= _MOST_TRACED_LAG:
        return None
    return Layer("pipeline.lag above 1", {"algorithm.correction": "decoupled"})


# In this order: a later layer sees the values of earlier layers.
DERIVED: tuple[Callable[[RunConfig, Collection[str]], Layer | None], ...] = (
    _shared_networks,
    _of_network,
    _engine,
    _exact_physics,
    _packed_learners,
    _annealing,
    _small_base,
    _correction,
)
