"""Independent PPO: policies and critics see their agent's observation.

De Witt et al., "Is Independent Learning All You Need in the StarCraft Multi-Agent Challenge?", 2020. The stages are
in `ppo.py`; IPPO only adds the independent critic's inputs.
"""

from functions.algorithms.ppo.diagnostics import PPO_SUMMARIES
from functions.algorithms.ppo.merge import Merging
from functions.algorithms.ppo.ppo import PPO_PARTS, PPO_STAGES, CriticView, Ppo, PpoConfig
from functions.algorithms.rows import observation_width, own_observation
from functions.algorithms.specification import AlgorithmSpec


class IppoConfig(PpoConfig, frozen=True, kw_only=True, tag_field="name", tag="ippo"):
    """Independent PPO."""


_VIEW = CriticView(observation_width, own_observation)
_PPO = Ppo(_VIEW)
STAGES, SUMMARIES, initialise = _PPO.stages, PPO_SUMMARIES, _PPO.initialise
merge = Merging(_VIEW).merge
SPEC = AlgorithmSpec(
    "ippo",
    IppoConfig,
    PPO_STAGES,
    PPO_PARTS,
    __name__,
    tuple(PPO_SUMMARIES),
    part_bytes=_PPO.part_bytes,
    member_rows=True,
)
