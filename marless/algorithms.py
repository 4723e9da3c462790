"""The interface for your algorithms: their description, a stage's context and result, networks, losses, and the check.

`marless.train` takes an `AlgorithmSpec`, or a function that makes one. A package offers an algorithm by an entry point
of the group ``marless.algorithms`` with an `AlgorithmSpec` as its value.

Examples:
    >>> from marless.algorithms import AlgorithmConfig, AlgorithmSpec, StageResult, StageSpec, check
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from marless.functions.algorithms.advantages import gae
from marless.functions.algorithms.agent_inputs import CriticView, members
from marless.functions.algorithms.group_inputs import observations, pooling
from marless.functions.algorithms.input_statistics import updated_statistics
from marless.functions.algorithms.minibatches import training_samples
from marless.functions.algorithms.ppo.merge import Merging
from marless.functions.algorithms.ppo.policy_summaries import PPO_SUMMARIES
from marless.functions.algorithms.ppo.ppo import Ppo
from marless.functions.algorithms.ppo.specs import OWN, PPO_PARTS, PPO_STAGES, PpoConfig
from marless.functions.algorithms.registry import names
from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec, NetworkConfig, StageSpec
from marless.functions.algorithms.stage import Context, Implementation, Stage, StageResult, SummaryResult, as_base
from marless.functions.algorithms.trainable import Trainable, minibatches, moments
from marless.functions.errors import BadRequest
from marless.functions.keys import group_name
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent
from marless.functions.nn.heads import distribution
from marless.functions.nn.layers import LayerNorm, Relu
from marless.functions.nn.losses import mask_logits
from marless.functions.nn.shape import Network
from marless.functions.randomness import generator

if TYPE_CHECKING:
    from marless.functions.algorithms.engine import LossOf
    from marless.functions.algorithms.torch_loss import TorchLoss, TorchLossOf

__all__ = [
    "PPO_PARTS",
    "PPO_STAGES",
    "PPO_SUMMARIES",
    "AlgorithmConfig",
    "AlgorithmSpec",
    "BadRequest",
    "Context",
    "CriticView",
    "Implementation",
    "LayerNorm",
    "Merging",
    "Network",
    "NetworkConfig",
    "Ppo",
    "PpoConfig",
    "Relu",
    "StageResult",
    "StageSpec",
    "SummaryResult",
    "Team",
    "Trainable",
    "as_base",
    "check",
    "distribution",
    "gae",
    "generator",
    "group_name",
    "mask_logits",
    "members",
    "minibatches",
    "moments",
    "names",
    "observations",
    "pooling",
    "ppo_variant",
    "recurrent",
    "torch_loss",
    "training_samples",
    "updated_statistics",
]


def torch_loss(of: "TorchLossOf") -> "LossOf[TorchLoss]":
    """A loss in torch for `Trainable.learn`: ``of(outputs, log_std, rows)`` is a scalar tensor.

    `outputs` ``[B, out]`` of the network, `log_std` ``[out]`` of a Gaussian head (or None), and the `rows` ``[B]`` of a
    minibatch are tensors. Raises `ModuleNotFoundError` without torch, which only learners need.
    """
    from marless.functions.algorithms.torch_loss import torch_loss as differentiated

    return differentiated(of)


def ppo_variant(critic_view: CriticView = OWN, config: type[PpoConfig] = PpoConfig, **stages: Stage) -> AlgorithmSpec:
    """Return PPO with another critic, other settings, or other stages.

    Args:
        critic_view: the inputs of critics. The default is the agent's own observation.
        config: the settings.
        **stages: functions in place of the stages ``postprocess``, ``critic`` and ``policy``.

    Raises `ValueError` for another stage.
    """
    ppo = Ppo(critic_view)
    if others := stages.keys() - ppo.stages.keys():
        raise ValueError(f"PPO has no stage {' or '.join(sorted(others))}; its stages are {', '.join(ppo.stages)}")
    code = Implementation(ppo.stages | stages, ppo.initialise, PPO_SUMMARIES, Merging(critic_view).merge)
    return AlgorithmSpec(
        "ppo_variant", config, PPO_STAGES, PPO_PARTS, code, tuple(PPO_SUMMARIES), part_bytes=ppo.part_bytes
    )


def check(spec: AlgorithmSpec | Callable[[], AlgorithmSpec], settings: Mapping[str, Any] | None = None) -> None:
    """Try all promises of an algorithm on random tasks. Raises `AssertionError` that names the violation."""
    from marless.testing.algorithms.conformance import check as run_checks

    algorithm = spec if isinstance(spec, AlgorithmSpec) else spec()
    tag = algorithm.config.__struct_config__.tag
    run_checks(algorithm if tag else algorithm.called(algorithm.name), dict(settings or {}))


__dir__ = __all__.copy
