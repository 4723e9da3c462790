"""What a round costs at list prices in the configured placement, by counts alone.

Nothing here is measured: requests and commits are counted as `marless.coordinator.placement.layout` makes them, and
compute by agents and steps at a nominal speed. So rules that change weights may read these prices.
"""

from collections.abc import Callable
from typing import NamedTuple

from marless.coordinator.placement.layout import Layout
from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS, PLACEMENTS, RoundPlacement
from marless.coordinator.pricing.planning_prices import Tariff

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


class PricedPlacement(NamedTuple):
    """The placement that a price is for: `rule` and the next two as in `placement`, and `most` rollouts at most."""

    rule: str
    rollouts_per_invocation: int
    inline_objects: bool
    most: int


def list_price(priced: PricedPlacement, layout: Callable[[int], Layout], tariff: Tariff) -> RoundPrice:
    """The price of a round in the placement; for `auto` in the cheapest of all placements for the most rollouts.

    `layout` takes a number of rollouts. A round of I rollouts costs about ``rest + I * rollout``: exactly where every
    invocation samples equally many. Where the rollouts of a round are one invocation, one more costs its steps only.
    """
    if PLACEMENTS[priced.rule].planned:
        # What `auto` may choose, with objects inside messages and all rollouts in one invocation.
        candidates = [_placement(PricedPlacement(rule, priced.most, True, priced.most)) for rule in LEARNER_PLACEMENTS]
    else:
        candidates = [_placement(priced)]
    most = max(2, priced.most)
    layouts = [layout(1), layout(most)]
    lines = [[_dollars(each, placement, tariff) for each in layouts] for placement in candidates]
    one, all_of_them = min(lines, key=lambda line: line[1])
    rollout = (all_of_them - one) / (most - 1)
    return RoundPrice((one - rollout) / rollout, rollout)


def _placement(priced: PricedPlacement) -> RoundPlacement:
    return RoundPlacement(
        rule=priced.rule,
        rollouts_per_invocation=priced.rollouts_per_invocation,
        inline_objects=priced.inline_objects,
        checkpoint_every=1,
        memory_mb={},
    )


def _dollars(layout: Layout, placement: RoundPlacement, tariff: Tariff) -> float:
    """Dollars of a round: requests, storage, commits, and compute on whole vCPUs."""
    workload = layout.workload
    ms = STEP_MS * workload.rollouts * workload.rollout_steps * workload.agents
    return sum(tariff.parts(layout.operations(placement))) + tariff.seconds(tariff.mb_per_vcpu * ms)
