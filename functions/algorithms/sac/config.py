"""The settings of ISAC and MASAC."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from functions.algorithms.off_policy.critics import CriticConfig
from functions.algorithms.specification import ScheduleName
from functions.bounds import LARGEST


class SacConfig(CriticConfig, frozen=True, kw_only=True):
    """The settings of both: agents explore by sampling from their policies, whose entropy a temperature holds at a
    target.

    The target of a choice is a share of the entropy of an even choice among the legal actions. The entropy of
    continuous actions is differential, of actions in [-1, 1], where -1 per dimension is that of an even choice from a
    fifth of the range.
    """

    initial_temperature: Annotated[
        float, Meta(gt=0, le=LARGEST, description="weight of the entropy at first, in scaled rewards per nat")
    ] = 0.1
    temperature_lr: Annotated[
        float, Meta(gt=0, le=LARGEST, description="Adam's step for the logarithm of the temperature")
    ] = 1e-3
    entropy_share: Annotated[
        float, Meta(ge=0, le=1, description="target entropy of a choice, of that of an even one")
    ] = 0.5
    entropy_per_number: Annotated[
        float, Meta(ge=-LARGEST, le=LARGEST, description="target entropy of continuous actions, in nats per dimension")
    ] = -1.0

    @property
    def schedules(self) -> Mapping[str, ScheduleName]:
        return {**super().schedules, "temperature_lr": self.lr_schedule}
