"""Settings of runs with agents that speak."""

from collections.abc import Iterator

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.placement.placement_rules import PLACEMENTS
from marless.functions.environments.base import EnvTask
from marless.functions.environments.scripted.script_names import is_scripted_name


def faults(config: RunConfig) -> Iterator[str]:
    """Yield the settings that agents that speak exclude."""
    yield from _voices(config)
    rule, size = config.placement.rule, config.algorithm.copies
    if PLACEMENTS[rule].one_function or PLACEMENTS[rule].planned:
        yield f"placement.rule: agents that speak are not placed by {rule}; use balanced, fused, packed or split"
    if config.actors.num_envs % size:
        yield f"actors.num_envs: {config.actors.num_envs} episodes are not groups of algorithm.group_size={size}"
    if config.actors.rollout_length is not None:
        yield "actors.rollout_length: a rollout of agents that speak is whole episodes; leave it out"
    if config.task != EnvTask(name=config.task.name, options=config.task.options):
        yield "task: agents that speak are the task's roles; set task.name and task.options only"


def _voices(config: RunConfig) -> Iterator[str]:
    """Check the models and policies that agents may speak by."""
    if is_scripted_name(config.opponents.policies) or config.league.script is not None:
        yield "opponents.policies: nobody speaks by a script; use random, or the policies of a run"
    if config.base.policies is not None:
        yield "base.policies: agents that speak have a language model as their base; set base.model"
