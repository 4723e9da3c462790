"""A kind of function that does the work of actors, learners and evaluators, and an algorithm that it serves: IPPO."""

from dataclasses import replace

from marless.functions.algorithms.ppo.specs import IPPO, PpoConfig
from marless.functions.function_specs import FunctionSpec


class SoloConfig(PpoConfig, frozen=True, kw_only=True, tag_field="name", tag="solo"):
    """Independent PPO."""


def faults(config):
    """The faults of a configuration."""
    if config.actors.num_envs > 99:
        yield "actors.num_envs: a soloist plays at most 99 environments"


SOLOIST = FunctionSpec("soloist", "solo work", handler="my_function_handler", checks="my_function:faults")
SOLO = replace(IPPO, name="solo", config=SoloConfig, function="soloist")
