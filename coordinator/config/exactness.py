"""The runs that have the same bytes on every type of processor: see decision 35."""

from marless.coordinator.config.defaults import suits_kernels
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.config.task_defaults import family
from marless.functions.algorithms.specification import AlgorithmConfig
from marless.functions.environments.base import EnvTask
from marless.functions.environments.task_names import BUILT_IN, EXACT_PHYSICS, is_compiled

_ALGORITHMS = ("ippo", "mappo", "happo", "iql", "vdn", "qmix", "qplex", "pqn")
# Rules that choose by summaries of policies and distil them are not among them.
_SHARING = ("none", "all", "groups")
# Settings that add a computation that differs between processors: the power of a priority, and a module's mixing
# network.
_INEXACT = ("priority", "mixer")


def is_exact(config: RunConfig) -> bool:
    """Return whether tests compare all computations of the run between types of processors. Others may be exact,
    too."""
    has_opponents = config.opponents.side is not None or config.league.rule != "none"
    has_origin = config.base.policies is not None or config.offline.dataset is not None
    learns_at_once = not (config.pipeline.lag or config.pipeline.micro_batch)
    by_rules = config.sharing.rule in _SHARING and config.scaling.rule == "constant"
    is_plain = learns_at_once and by_rules and not (has_opponents or has_origin)
    tasks = (config.task, config.evaluated_task)
    return is_plain and _is_exact_algorithm(config.algorithm) and all(map(_is_exact_task, tasks))


def _is_exact_algorithm(algorithm: AlgorithmConfig) -> bool:
    if algorithm.engine != "native" or algorithm.name not in _ALGORITHMS or not suits_kernels(algorithm):
        return False
    return "cosine" not in algorithm.schedules.values() and not any(getattr(algorithm, name, None) for name in _INEXACT)


def _is_exact_task(task: EnvTask) -> bool:
    options = task.options
    # A task of another package may have such a name.
    is_ours = task.name in BUILT_IN and family(task.name) == "mpe/"
    is_exact_world = is_compiled(task.name) or (is_ours and options.get(EXACT_PHYSICS) is True)
    return is_exact_world and not (options.get("continuous_actions") or task.judge)
