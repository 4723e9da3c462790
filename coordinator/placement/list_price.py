"""What a round costs at list prices in the configured placement, by counts alone.

Nothing here is measured: requests and commits are counted as `marless.coordinator.placement.layout` makes them, and
compute by agents and steps at a nominal speed. So rules that change weights may read these prices.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from marless.coordinator.placement.layout import Layout
from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS, PLACEMENTS, RoundPlacement
from marless.coordinator.placement.workload import Summing, Workload
from marless.coordinator.pricing.planning_prices import Tariff
from marless.functions.algorithms.specification import StageSpec

# One step of one agent, sampled and learned from, on a whole vCPU: `packed` takes 9.6 us with three agents and the
# default networks (docs/results/benchmarks.md). A nominal speed: networks of other sizes have the same price.
STEP_MS = 0.01
# A run's item in the ledger, nominal.
ITEM_BYTES = 4096


class RoundPrice(NamedTuple):
    """`overhead`: the rest of a round in prices of one rollout; `rollout`: dollars of one rollout."""

    overhead: float
    rollout: float = 0.0

    def dollars(self, rollouts: int) -> float:
        """Dollars of a round of so many rollouts."""
        return (self.overhead + rollouts) * self.rollout


@dataclass(frozen=True)
class PricedRound:
    """What the price of a round depends on: `rule` and the next two as in `placement`, `members` agents in every group,
    and `steps` of the environment in a rollout; `most` rollouts at most; the others as in `Workload`."""

    rule: str
    rollouts_per_invocation: int
    inline_objects: bool
    members: tuple[int, ...]
    stages: tuple[StageSpec, ...]
    updates: int
    steps: int
    most: int
    summing: Summing | None = None
    base_bytes: float = 0.0


@cache
def list_price(conditions: PricedRound, tariff: Tariff) -> RoundPrice:
    """The price of a round in the placement; for `auto` in the cheapest of all placements for the most rollouts.

    A round of I rollouts costs about ``rest + I * rollout``: exactly where every invocation samples equally many. Where
    the rollouts of a round are one invocation, one more costs its steps only. Cached, because every round asks for it.
    """
    candidates = (
        _candidates(conditions) if PLACEMENTS[conditions.rule].planned else [_placement(conditions, conditions.rule)]
    )
    layouts = {number: Layout(_workload(conditions, number)) for number in (1, max(2, conditions.most))}
    lines = [
        [_dollars(layout, placement, conditions, tariff) for layout in layouts.values()] for placement in candidates
    ]
    one, most = min(lines, key=lambda line: line[1])
    rollout = (most - one) / (max(2, conditions.most) - 1)
    return RoundPrice((one - rollout) / rollout, rollout)


def _candidates(conditions: PricedRound) -> list[RoundPlacement]:
    """The placements that `auto` may choose, with objects inside messages and all rollouts in one invocation."""
    return [_placement(conditions, rule, conditions.most, inline_objects=True) for rule in LEARNER_PLACEMENTS]


def _placement(
    conditions: PricedRound, rule: str, per_invocation: int | None = None, inline_objects: bool | None = None
) -> RoundPlacement:
    return RoundPlacement(
        rule=rule,
        rollouts_per_invocation=per_invocation or conditions.rollouts_per_invocation,
        inline_objects=conditions.inline_objects if inline_objects is None else inline_objects,
        checkpoint_every=1,
        memory_mb={},
    )


def _workload(conditions: PricedRound, rollouts: int) -> Workload:
    return Workload(
        agents=sum(conditions.members),
        members=dict(enumerate(conditions.members)),
        stages=conditions.stages,
        rollouts=rollouts,
        rollout_steps=conditions.steps,
        most_rounds=1,
        rollout_bytes=0.0,
        policy_bytes=0.0,
        learner_bytes=0.0,
        ledger_bytes=ITEM_BYTES,
        width=1,
        updates=conditions.updates,
        summing=conditions.summing,
        base_bytes=conditions.base_bytes,
    )


def _dollars(layout: Layout, placement: RoundPlacement, conditions: PricedRound, tariff: Tariff) -> float:
    """Dollars of a round: requests, storage, commits, and compute on whole vCPUs."""
    ms = STEP_MS * layout.workload.rollouts * conditions.steps * layout.workload.agents
    return sum(tariff.parts(layout.operations(placement))) + tariff.seconds(tariff.mb_per_vcpu * ms)
