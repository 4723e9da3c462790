"""QMIX: a side's joint action value increases monotonically with its agents' utilities, as a function of the state.

Rashid et al., "QMIX: Monotonic Value Function Factorisation for Deep Multi-Agent Reinforcement Learning", 2018.
"""

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.engine import engine_of
from marless.functions.algorithms.stage import Context, Stage
from marless.functions.algorithms.value.decomposition_stages import policy, utility
from marless.functions.algorithms.value.joint_values import MixedValue, MixingNetwork
from marless.functions.algorithms.value.mixer import Mixer, mixer_of
from marless.functions.algorithms.value.specs import QmixConfig
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn.layers import Array
from marless.functions.nn.shape import MixerShape


class _Qmix(MixedValue[QmixConfig]):
    def initial_tensors(
        self, spec: EnvSpec, team: Team, config: QmixConfig, group: int, rng: np.random.Generator
    ) -> Mapping[str, NDArray[Any]]:
        """See `MixedValue.initial_tensors`. Raises `BadRequest` for an unsuitable factory."""
        if config.mixer is None:
            return super().initial_tensors(spec, team, config, group, rng)
        built_in = Mixer.of(spec, team, config, group)
        shape = MixerShape(
            factory=config.mixer,
            agents=built_in.agents,
            state=built_in.state,
            mixing_embed_dim=built_in.embed,
            hypernet_embed=built_in.hyper,
        )
        tensors: dict[str, Array] = _by_torch(config).initial_tensors(
            shape, config.device, f"mixer/{group_name(group)}", rng
        )
        return tensors

    def load(self, context: Context[QmixConfig], prefix: str) -> tuple[MixingNetwork, Array]:
        config = context.config
        if config.mixer is None:
            return mixer_of(context.tensors, prefix, engine_of(config))
        mixer: tuple[MixingNetwork, Array] = _by_torch(config).load(
            context.tensors, prefix, config.mixer, config.device
        )
        return mixer


def _by_torch(config: QmixConfig) -> ModuleType:
    """Return the module that trains torch modules, after setting torch up. Raises `MissingExtra`."""
    if config.engine != "torch":
        raise BadRequest(f"algorithm.mixer={config.mixer} needs algorithm.engine=torch")
    engine_of(config)
    return importlib.import_module("marless.functions.algorithms.value.module_mixer")


_QMIX = _Qmix(Mixer.of)
initialise = _QMIX.initialise
STAGES: Mapping[str, Stage] = {"utility": utility, "mix": _QMIX.mix, "policy": policy}
