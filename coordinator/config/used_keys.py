"""The keys that a run uses, without settings of unused rules, algorithms and tasks."""

from collections.abc import Iterable

import msgspec

from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.coordinator.rules.league import LEAGUE_RULES
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.coordinator.rules.sharing import BASES, SHARING_MODES
from marless.functions.algorithms import registry as algorithms
from marless.functions.environments.language_task_names import is_language_task
from marless.functions.function_specs import NAMES

# Settings that few users change.
_EXPERT = ("algorithm.adam_eps", "algorithm.huber_delta", "algorithm.value_clip", "algorithm.value_decay")
_RARE = (*_EXPERT, "evaluation.final_episodes", "evaluation.episodes_per_invocation")
_OF_SWITCHING = ("start", "distance", "grouping", "base", "trial", "error")


def used_keys(config: RunConfig, explicit_keys: Iterable[str]) -> set[str]:
    """Return the dotted keys that the run uses or that the user has set."""
    unused = {key for key, is_used in _conditions(config).items() if not is_used} | {*_RARE}
    used = {key for key in flatten(msgspec.to_builtins(config)) if not unused & _key_and_tables(key)}
    return used | {*explicit_keys} | {"task.options"}


def _key_and_tables(key: str) -> set[str]:
    words = key.split(".")
    return {".".join(words[:count]) for count in range(1, len(words) + 1)}


def _conditions(config: RunConfig) -> dict[str, bool]:
    """Return whether a key or table is used, for all keys that some runs do not use."""
    spec, is_language = algorithms.algorithm(config.algorithm.name), is_language_task(config.task.name)
    return {
        **_sharing(config),
        **_rollouts(config),
        "algorithm.recurrent": False,  # `network` names it
        "algorithm.data_chunk_length": bool(getattr(config.algorithm, "recurrent", False)),
        "algorithm.correction": config.pipeline.lag > 0,
        "task.judge": bool(config.resources),
        "evaluation.side": config.evaluation.side is not None,
        "opponents.policies": config.opponents.side is not None,
        "offline": spec.imitates or config.offline.dataset is not None,
        "base.policies": spec.adapts,
        "base.model": is_language,
        "base.rank": is_language or config.base.policies is not None,
        "base.layers": is_language,
        **{f"functions.{name}": name == spec.function for name in NAMES if name not in _EVERYWHERE},
    }


_EVERYWHERE = ("actor", "learner", "evaluator")


def _sharing(config: RunConfig) -> dict[str, bool]:
    sharing, mode = config.sharing, SHARING_MODES[config.sharing.rule]
    return {
        "trend": mode.switches,
        "trend.gamma": config.trend.rule in ("paper", "decline"),
        "trend.alpha": config.trend.rule == "significant",
        **{f"sharing.{key}": mode.switches for key in _OF_SWITCHING},
        "sharing.groups": mode.groups_from_config,
        "sharing.rows": sharing.rule != "none",
        "sharing.cap": mode.switches and sharing.grouping == "kmeans",
        "sharing.epsilon": mode.switches and sharing.grouping == "linkage",
        "sharing.confidence": mode.switches and sharing.grouping == "linkage",
        "sharing.distil_steps": mode.switches and BASES[sharing.base].distils,
        "sharing.margin": mode.switches and sharing.trial,
        "sharing.trial_episodes": mode.switches and sharing.trial,
    }


def _rollouts(config: RunConfig) -> dict[str, bool]:
    rule, placement = SCALING_RULES[config.scaling.rule], PLACEMENTS[config.placement.rule]
    has_league = LEAGUE_RULES[config.league.rule].weights is not None
    return {
        "scaling.min_rollouts": rule.adapts,
        "scaling.priced_as": rule.floor is not None,
        "scaling.beta": "curvature" in rule.needs,
        "placement.chain": placement.one_function or placement.planned,
        "placement.inline_objects": not placement.planned,
        **{f"league.{key}": has_league for key in ("every", "size", "share", "script")},
    }
