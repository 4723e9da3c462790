"""QMIX: a side's joint action value increases monotonically with its agents' utilities, as a function of the state.

Rashid et al., "QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent Reinforcement Learning", 2018.
"""

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from functions.algorithms.engine import engine_of
from functions.algorithms.off_policy.priorities import PART
from functions.algorithms.off_policy.replay import side_of
from functions.algorithms.rows import members, state_width
from functions.algorithms.specification import AlgorithmSpec
from functions.algorithms.stage import Context, Stage, Summary, as_base
from functions.algorithms.value import mixed
from functions.algorithms.value import utilities as utility_networks
from functions.algorithms.value.decomposed import policy, utility
from functions.algorithms.value.mixed import MixedConfig, MixedValue, MixingNetwork
from functions.algorithms.value.mixer import Mixer, mixer_of
from functions.bounds import MOST_UNITS
from functions.contract import BadRequest, SummaryName, Team
from functions.environments.base import EnvSpec
from functions.keys import group_name
from functions.nn.mlp import Array
from functions.nn.shape import MixerShape


class QmixConfig(MixedConfig, frozen=True, kw_only=True, tag_field="name", tag="qmix"):
    """Monotonic mixing, or that of a factory."""

    mixing_embed_dim: Annotated[int, Meta(ge=1, le=MOST_UNITS, description="hidden units of the mixing network")] = 32
    mixer: (
        Annotated[str, Meta(description="a torch module's package.module:factory in place of QMIX's mixing network")]
        | None
    ) = None

    def __post_init__(self) -> None:
        """Raises `ValueError` also for a mixing network that is no factory's."""
        super().__post_init__()
        if self.mixer is not None and ":" not in self.mixer:
            raise ValueError(f"mixer is {self.mixer!r}, and a factory's name is package.module:factory")

    @property
    def needs_torch(self) -> bool:
        return super().needs_torch or self.mixer is not None


class _Qmix(MixedValue[QmixConfig]):
    def network(self, spec: EnvSpec, team: Team, config: QmixConfig, group: int) -> Mixer:
        width = state_width(spec, members(team, group)[0])
        return Mixer(len(side_of(spec, team, group)), width, config.mixing_embed_dim, config.hypernet_embed)

    def made(
        self, spec: EnvSpec, team: Team, config: QmixConfig, group: int, rng: np.random.Generator
    ) -> Mapping[str, NDArray[Any]]:
        """See `MixedValue.made`; raises `BadRequest` for a factory that will not do."""
        if config.mixer is None:
            return super().made(spec, team, config, group, rng)
        built_in = self.network(spec, team, config, group)
        shape = MixerShape(
            factory=config.mixer,
            agents=built_in.agents,
            state=built_in.state,
            mixing_embed_dim=built_in.embed,
            hypernet_embed=built_in.hyper,
        )
        tensors: dict[str, Array] = _by_torch(config).made(shape, config.device, f"mixer/{group_name(group)}", rng)
        return tensors

    def load(self, context: Context[QmixConfig], prefix: str) -> tuple[MixingNetwork, Array]:
        config = context.config
        if config.mixer is None:
            return mixer_of(context.tensors, prefix)
        found: tuple[MixingNetwork, Array] = _by_torch(config).loaded(
            context.tensors, prefix, config.mixer, config.device
        )
        return found

    def part_bytes(self, spec: EnvSpec, team: Team, config: QmixConfig, group: int) -> dict[str, int]:
        if config.mixer is None:
            return super().part_bytes(spec, team, config, group)
        return utility_networks.part_bytes(spec, team, config, group)  # only its factory knows the rest


def _by_torch(config: QmixConfig) -> ModuleType:
    """What trains modules, once the engine has set torch up; raises `MissingExtra` without torch."""
    if config.engine != "torch":
        raise BadRequest(f"algorithm.mixer={config.mixer} needs algorithm.engine=torch")
    engine_of(config)
    return importlib.import_module("functions.algorithms.value.module_mixer")


_QMIX = _Qmix()
initialise = _QMIX.initialise
STAGES: Mapping[str, Stage] = {"utility": utility, "mix": _QMIX.mix, "policy": policy}
SUMMARIES: Mapping[SummaryName, Summary] = {}
merge = as_base
SPEC = AlgorithmSpec(
    "qmix", QmixConfig, mixed.STAGES, mixed.PARTS, __name__, resizable_parts=(PART,), part_bytes=_QMIX.part_bytes
)
