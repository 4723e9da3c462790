"""QMIX: a side's joint action value increases monotonically with its agents' utilities, as a function of the state.

Rashid et al., "QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent Reinforcement Learning", 2018.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta
from numpy.typing import NDArray

from functions.algorithms.base import AlgorithmSpec, Stage, Summary, as_base
from functions.algorithms.off_policy.priorities import PART
from functions.algorithms.off_policy.replay import side_of
from functions.algorithms.rows import members, state_width
from functions.algorithms.value import mixed
from functions.algorithms.value.decomposed import policy, utility
from functions.algorithms.value.mixed import MixedConfig, MixedValue
from functions.algorithms.value.mixer import Mixer, mixer_of
from functions.contract import SummaryName, Team
from functions.environments.base import EnvSpec
from functions.nn.mlp import Array


class QmixConfig(MixedConfig, frozen=True, kw_only=True, tag_field="name", tag="qmix"):
    """Monotonic mixing."""

    mixing_embed_dim: Annotated[int, Meta(ge=1, description="hidden units of the mixing network")] = 32


class _Qmix(MixedValue[QmixConfig]):
    def network(self, spec: EnvSpec, team: Team, config: QmixConfig, group: int) -> Mixer:
        width = state_width(spec, members(team, group)[0])
        return Mixer(len(side_of(spec, team, group)), width, config.mixing_embed_dim, config.hypernet_embed)

    def load(self, tensors: Mapping[str, NDArray[Any]], prefix: str) -> tuple[Mixer, Array]:
        return mixer_of(tensors, prefix)


_QMIX = _Qmix()
initialise = _QMIX.initialise
STAGES: Mapping[str, Stage] = {"utility": utility, "mix": _QMIX.mix, "policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "qmix", QmixConfig, mixed.STAGES, mixed.PARTS, __name__, resizable_parts=(PART,), part_bytes=_QMIX.part_bytes
)
