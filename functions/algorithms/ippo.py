"""Independent PPO: every group has a policy and a critic that see one agent's own observation.

De Witt et al., "Is Independent Learning All You Need in the StarCraft Multi-Agent Challenge?", 2020. The stages stand
in `ppo.py`; what makes it independent is the critic's view.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.base import AlgorithmSpec
from functions.algorithms.ppo import PPO_PARTS, PPO_STAGES, CriticView, Ppo, PpoConfig
from functions.algorithms.ppo_merge import Merging
from functions.algorithms.ppo_summaries import PPO_SUMMARIES
from functions.environments.base import Spec
from functions.learner.batch import Batch


class IppoConfig(PpoConfig, frozen=True, kw_only=True, tag_field="name", tag="ippo"):
    """Independent PPO."""


def own_width(spec: Spec, agent: int) -> int:
    """The width of the agent's observation."""
    return next(kind.observation_size for kind in spec.classes if agent in kind.agents)


def own_observation(batch: Batch, agent: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The agent's observations ``[T, E, F]`` and those after each cut ``[K, F]``; zeros where it is not alive."""
    seen, after = batch.of(batch.observations, agent), batch.of(batch.cut_observations, agent)
    alive = batch.alive[agent]
    if alive.all() and not batch.terminated[agent].any():
        return seen, after
    left = (alive & ~batch.terminated[agent])[batch.cut[:, 0], batch.cut[:, 1]]
    return np.where(alive[..., None], seen, seen.dtype.type(0)), np.where(left[:, None], after, after.dtype.type(0))


_VIEW = CriticView(own_width, own_observation)
_PPO = Ppo(_VIEW)
STAGES, SUMMARIES, initialise = _PPO.stages, PPO_SUMMARIES, _PPO.initialise
merge = Merging(_VIEW).merge
SPEC = AlgorithmSpec("ippo", IppoConfig, PPO_STAGES, PPO_PARTS, __name__, tuple(PPO_SUMMARIES))
