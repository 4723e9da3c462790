"""ISAC and MASAC as the coordinator knows them: settings, stages, and the sizes of their networks."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from msgspec import Meta

from marless.functions.algorithms.off_policy import specs
from marless.functions.algorithms.specification import AlgorithmSpec, ScheduleName, StageSpec, trained_bytes
from marless.functions.environments.base import EnvSpec
from marless.functions.messages.team import Team
from marless.functions.setting_limits import LARGEST

TEMPERATURE_PARTS = ("temperature", "temperature_optimiser")
POLICY_PARTS = ("policy", "policy_optimiser", *TEMPERATURE_PARTS)
PARTS = (*POLICY_PARTS, *specs.CRITIC_PARTS)


class SacConfig(specs.CriticConfig, frozen=True, kw_only=True):
    """The settings of both. Agents explore by sampling from their policies, and a temperature holds the policies'
    entropy at a target.

    The target of a choice is a share of the entropy of an even choice among the legal actions. The entropy of
    continuous actions in [-1, 1] is differential: -1 per dimension belongs to an even choice from a fifth of the range.

    Attributes:
        initial_temperature: weight of the entropy at first, in scaled rewards per nat. Higher explores more at first
        temperature_lr: Adam's step size for the logarithm of the temperature. Higher reaches the target entropy faster,
            but is less stable
        entropy_share: target entropy of a discrete choice, as a share of an even choice's entropy. Higher explores more
        entropy_per_number: target entropy of continuous actions, in nats per dimension. Higher explores more
    """

    initial_temperature: Annotated[float, Meta(gt=0, le=LARGEST)] = 0.1
    temperature_lr: Annotated[float, Meta(gt=0, le=LARGEST)] = 1e-3
    entropy_share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    entropy_per_number: Annotated[float, Meta(ge=-LARGEST, le=LARGEST)] = -1.0

    @property
    def schedules(self) -> Mapping[str, ScheduleName]:
        return {**super().schedules, "temperature_lr": self.lr_schedule}


class IsacConfig(SacConfig, frozen=True, kw_only=True, tag_field="name", tag="isac"):
    """Independent SAC."""


class MasacConfig(SacConfig, frozen=True, kw_only=True, tag_field="name", tag="masac"):
    """Multi-agent SAC."""


def part_bytes(view: specs.View, spec: EnvSpec, team: Team, config: SacConfig, group: int) -> dict[str, int]:
    """The bytes of a group's networks, targets and moments. Raises `BadRequest` for several choices at once."""
    sizes = specs.actor_critic_bytes(view, spec, team, config, group, stochastic=True)
    return sizes and sizes | trained_bytes("temperature", 1)


ISAC = AlgorithmSpec(
    "isac",
    IsacConfig,
    (
        StageSpec("critic", (), "group", ("policy", "temperature", *specs.CRITIC_PARTS), specs.CRITIC_PARTS),
        StageSpec("policy", ("critic",), "group", POLICY_PARTS, POLICY_PARTS),
    ),
    PARTS,
    "marless.functions.algorithms.sac.isac",
    part_bytes=partial(part_bytes, specs.OWN_VIEW),
)
MASAC = AlgorithmSpec(
    "masac",
    MasacConfig,
    (
        StageSpec("actors", (), "group", ("policy",), ()),
        StageSpec(
            "critic", ("actors",), "group", ("temperature", *specs.CRITIC_PARTS), specs.CRITIC_PARTS, couples=True
        ),
        StageSpec("policy", ("critic",), "group", POLICY_PARTS, POLICY_PARTS),
    ),
    PARTS,
    "marless.functions.algorithms.sac.masac",
    part_bytes=partial(part_bytes, specs.TEAM_VIEW),
)
