"""The price of the coming round at list prices, for rules that change weights: no clock and no bill enters."""

from coordinator.core.state import Plan, State
from coordinator.core.state_location import spec_of
from coordinator.core.tasks import rollout_steps
from coordinator.placement.list_price import PricedRound, RoundPrice, list_price
from coordinator.placement.rules import list_overhead
from coordinator.pricing.tariff import Tariff
from coordinator.rules.scaling import SCALING_RULES


def round_price(plan: Plan, state: State) -> RoundPrice:
    """The price of a round of the present team: of the configured placement where the scaling rule reads that, else
    the overhead of the MARLess paper's decomposition."""
    config = plan.config
    assert state.team is not None
    if SCALING_RULES[config.scaling.rule].floor is None:
        stages, storage = spec_of(plan).stages, config.pricing.storage
        return RoundPrice(list_overhead(plan.prices, len(state.env_spec.agents), stages, storage))
    groups = state.team.groups
    priced = PricedRound(
        rule=config.scaling.priced_as or config.placement.rule,
        rollouts_per_invocation=config.placement.rollouts_per_invocation,
        inline_objects=config.placement.inline_objects,
        members=tuple(groups.count(group) for group in state.groups),
        stages=tuple(spec_of(plan).stages),
        updates=config.algorithm.updates_per_round,
        steps=rollout_steps(plan, state),
        most=config.scaling.rollouts,
    )
    return list_price(priced, Tariff.of(plan.prices, config.pricing.architecture, config.pricing.storage))
