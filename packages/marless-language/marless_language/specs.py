"""GRPO for the coordinator: settings, its stage and the data that a group of roles learns from."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from marless.functions.algorithms.specification import (
    AlgorithmConfig,
    AlgorithmSpec,
    EntropyWeight,
    ScheduleName,
    StageSpec,
)
from marless.functions.keys import group_name
from marless.functions.setting_limits import LARGEST, LARGEST_STEP, MOST_ENVS

PARTS = ("policy", "policy_optimiser")
FUNCTION = "language"
"""The kind of function that serves the tasks of agents that speak."""


def adapter_name(group: int) -> str:
    """The tensor with a group's adapter."""
    return f"policy/{group_name(group)}/adapter"


class GrpoConfig(AlgorithmConfig, frozen=True, kw_only=True, tag_field="name", tag="grpo"):
    """Group-relative policy optimisation of roles that speak, each by an adapter of a frozen model.

    Formulas and their sources are in `marless_language.grpo`.

    Attributes:
        lr: Adam's step size. Higher learns faster, but is less stable. With 0, roles stay as they are
        lr_schedule: how lr falls to 0 over stop.env_steps or stop.rounds, whichever is nearer. A falling lr is more
            stable at the end
        group_size: episodes that begin alike and are compared with each other. Higher compares more exactly, but takes
            longer
        clip_coef: how far the probability ratio counts below 1. Lower makes updates smaller and more stable
        clip_coef_high: how far the probability ratio counts above 1. Higher lets rare replies become likely faster
        kl_coef: weight of the divergence from the base model. Higher stays closer to the base model
        ent_coef: weight of the entropy bonus. Higher explores more
        scale: std: divide advantages by the standard deviation of their group
        max_grad_norm: cap on each adapter's gradient norm. Lower is more stable, but can be slower
    """

    lr: Annotated[float, Meta(ge=0, le=LARGEST_STEP)] = 5e-4
    lr_schedule: ScheduleName = "constant"
    group_size: Annotated[int, Meta(ge=2, le=MOST_ENVS)] = 8
    clip_coef: Annotated[float, Meta(gt=0, le=1)] = 0.2
    clip_coef_high: Annotated[float, Meta(gt=0, le=LARGEST)] = 0.28
    kl_coef: Annotated[float, Meta(ge=0, le=LARGEST)] = 0.0
    ent_coef: EntropyWeight = 0.003
    scale: Literal["none", "std"] = "none"
    max_grad_norm: Annotated[float, Meta(gt=0, le=LARGEST)] = 1.0

    @property
    def engine(self) -> str:
        return "torch"

    @property
    def copies(self) -> int:
        return self.group_size

    @property
    def schedules(self) -> Mapping[str, ScheduleName]:
        return {"lr": self.lr_schedule}


GRPO = AlgorithmSpec(
    "grpo",
    GrpoConfig,
    (StageSpec("policy", (), "group", PARTS, PARTS),),
    PARTS,
    "marless_language.learning",
    sum_parts=("policy",),
    function=FUNCTION,
)
