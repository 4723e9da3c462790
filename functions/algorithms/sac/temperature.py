"""The temperature of a group's soft policy: the weight of its entropy, which holds the entropy at a target.

Haarnoja et al., "Soft Actor-Critic Algorithms and Applications", 2018, section 5. The loss is ``log(temperature)
(entropy - target)``, like their code's: the temperature stays above 0, and steps do not vanish with it.
"""

import numpy as np

from marless.functions.algorithms.sac.specs import SacConfig
from marless.functions.algorithms.stage import Context
from marless.functions.algorithms.trainable import moments
from marless.functions.nn.adam import Adam
from marless.functions.nn.layers import Array


def new_temperature(config: SacConfig, name: str) -> dict[str, Array]:
    """The logarithm of the first temperature ``[1]``, and zero moments."""
    log = np.full(1, np.log(config.initial_temperature), np.float32)
    return {f"temperature/{name}/log": log, **moments(f"temperature_optimiser/{name}", log.size)}


def temperature(context: Context[SacConfig], name: str) -> float:
    """The temperature of group `name`, in scaled rewards per nat."""
    return float(np.exp(context.tensors[f"temperature/{name}/log"][0]))


def temperature_step(context: Context[SacConfig], name: str, excess: Array) -> dict[str, Array]:
    """The temperature after a step, given by how much the entropy of each row was above its target ``[rows]``."""
    prefix, config = f"temperature_optimiser/{name}", context.config
    log, first, second = (
        np.array(context.tensors[key]) for key in (f"temperature/{name}/log", f"{prefix}/first", f"{prefix}/second")
    )
    steps = int(context.tensors[f"{prefix}/steps"][0])
    adam = Adam(log, first, second, steps, config.temperature_lr, config.adam_eps, config.max_grad_norm)
    adam.step(np.array([excess.mean() if excess.size else 0.0], log.dtype))
    return {
        f"temperature/{name}/log": adam.parameters,
        f"{prefix}/first": adam.first,
        f"{prefix}/second": adam.second,
        f"{prefix}/steps": np.array([adam.steps], np.int64),
    }
