"""The placement of the coming round, as the user set it or as the planner finds cheapest, and its list price."""

import dataclasses
from collections.abc import Collection

from msgspec.structs import replace

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core import memory_bound, requests
from marless.coordinator.core.rounds import agents_learned_from, fragments, rollout_steps, undisturbed
from marless.coordinator.core.state import Plan, State
from marless.coordinator.core.state_location import spec_of
from marless.coordinator.placement import coordination_cost, planner
from marless.coordinator.placement.candidates import Terms, reduce_to_limits
from marless.coordinator.placement.coordination_cost import CoordinationCost
from marless.coordinator.placement.list_price import PricedRound, RoundPrice, list_price
from marless.coordinator.placement.placement_rules import (
    PLACEMENTS,
    Packs,
    RoundPlacement,
    balance,
    divide,
    halves_of,
    list_overhead,
)
from marless.coordinator.placement.workload import Summing, Workload
from marless.coordinator.pricing.aws_latency import LATENCIES
from marless.coordinator.pricing.planning_prices import Tariff
from marless.coordinator.rules import similarity
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.coordinator.rules.sharing import SHARING_MODES
from marless.functions.environments.base import EnvSpec
from marless.functions.function_specs import PLACED
from marless.functions.messages.learner import COMPARED_OBSERVATIONS, DENSITY_DIMENSIONS, DENSITY_SAMPLES
from marless.functions.warm_cache import share_of

# Bytes that stages publish for every row: advantage, target and value.
_PASSED_BYTES = 12
# Gradients of a network among sums, on average.
_GRADIENTS = 2
# Bytes of a tensor's name and shape in its object.
_NAMED_BYTES = 90


def place_round(plan: Plan, state: State) -> RoundPlacement:
    """The placement of the round that begins."""
    if not PLACEMENTS[plan.config.placement.rule].planned:
        return configured_placement(plan, state)
    return planner.plan(state.round, workload(plan, state), state.timings, terms(plan, state), state.round_placement)


def placement_changed(plan: Plan, state: State) -> bool:
    """Whether the user has changed the placement since the round in flight began.

    With another number of slots the round keeps its packs, whose learners may have answered.
    """
    if PLACEMENTS[plan.config.placement.rule].planned:
        return False
    user_placement = configured_placement(plan, state)
    return replace(state.placement, packs=()) != replace(user_placement, packs=())


def configured_placement(plan: Plan, state: State) -> RoundPlacement:
    """The user's placement, reduced where messages of deployed functions cannot hold it."""
    settings = plan.config.placement
    rule = PLACEMENTS[settings.rule]
    assert not rule.planned
    packs = _packs(plan, state) if rule.packs_groups(len(state.groups), plan.platform) else ()
    round_placement = RoundPlacement(
        rule=settings.rule,
        rollouts_per_invocation=settings.rollouts_per_invocation,
        rounds=settings.rounds,
        inline_objects=settings.inline_objects,
        checkpoint_every=plan.config.checkpoint_every,
        memory_mb={},
        packs=packs,
    )
    if not plan.platform.messages_limited:
        return round_placement
    return reduce_to_limits(
        round_placement, dataclasses.replace(workload(plan, state), packs=packs), terms(plan, state)
    )


def workload(plan: Plan, state: State) -> Workload:
    """The workload of the coming round."""
    assert state.team is not None
    groups = state.team.groups
    policies = {index for part, index in state.parts.items() if part.startswith("policy/")}
    steps, num_envs = rollout_steps(plan, state), plan.config.actors.num_envs
    episodes = num_envs * -(-steps // (num_envs * state.env_spec.horizon))
    return Workload(
        agents=len(groups),
        members={group: groups.count(group) for group in state.groups},
        stages=spec_of(plan).stages,
        rollouts=state.controller.rollouts,
        rollout_steps=steps,
        most_rounds=undisturbed(plan, state),
        rollout_bytes=rollout_bytes(state.env_spec, steps, episodes),
        policy_bytes=sum(ref.size for index, ref in enumerate(state.objects) if index in policies),
        learner_bytes=sum(ref.size for index, ref in enumerate(state.objects) if index not in policies),
        ledger_bytes=state.item_bytes,
        width=plan.platform.concurrency,
        tensor_bytes=_PASSED_BYTES * steps * state.controller.rollouts * agents_learned_from(plan, state, state.groups),
        table_bytes=_table_bytes(plan.config, state.env_spec),
        rollout_episodes=episodes,
        regroups=SHARING_MODES[plan.config.sharing.rule].switches,
        updates=plan.config.algorithm.updates_per_round,
        replays=plan.config.algorithm.replayed_steps > 0,
        packs=_packs(plan, state),
        member_rows=plan.config.sharing.rows == "member",
        unfinished_bytes=_unfinished_bytes(state.env_spec, num_envs) if fragments(plan, state) else 0.0,
        recorded=plan.inputs.dataset is not None,
        input_reads=_input_reads(plan, state),
        opponent_reads=max(len(one.policies) for one in state.league.checkpoints) if state.league else None,
        lag=plan.config.pipeline.lag,
        summing=_summing(plan, state),
        base_bytes=_base_bytes(plan),
    )


def _base_bytes(plan: Plan) -> float:
    return float(plan.inputs.base.networks.size) if plan.inputs.base else 0.0


def _summing(plan: Plan, state: State) -> Summing | None:
    """How the coming round is summed part by part."""
    rollouts = plan.config.pipeline.rollouts
    if not rollouts:
        return None
    assert state.team is not None
    sizes = memory_bound.part_sizes(plan.config, state.env_spec, state.team)
    gradients = sum(memory_bound.gradient_bytes(parts) for parts in sizes.values())
    return Summing(rollouts, spec_of(plan).sums, float(_GRADIENTS * gradients))


def _input_reads(plan: Plan, state: State) -> int:
    """How many objects a warm actor reads in every task beside policies and unfinished episodes; a dataset that fits is
    kept."""
    most, dataset = share_of(plan.config.functions.actor.memory_mb), plan.inputs.dataset
    return sum(ref != dataset or ref.size > most for ref in requests.sampling(plan, state).reads())


def _unfinished_bytes(spec: EnvSpec, num_envs: int) -> float:
    """The most bytes of a rollout's unfinished episodes: seeds, lengths, returns, and the actions of whole episodes."""
    action_bytes = sum(
        4 * len(kind.agents) * (len(kind.branches) or (kind.actions if kind.continuous else 1)) for kind in spec.classes
    )
    return num_envs * (16.0 + 8 * len(spec.agents) + spec.horizon * action_bytes) + _NAMED_BYTES * (
        3 + len(spec.classes)
    )


def _packs(plan: Plan, state: State) -> Packs:
    """The groups, or halves of them, in as many packs as functions run at once.

    A group's work is expected to grow with the rows that it learns from and with the bytes that its stages read, which
    is the same after a resume; durations are measured by kind of task, not by group.
    """
    assert state.team is not None
    spec, slots = spec_of(plan), plan.platform.concurrency
    sizes = memory_bound.part_sizes(plan.config, state.env_spec, state.team)

    def load(group: int, stages: Collection[str]) -> float:
        read_bytes = sum(sizes[group].get(part, 0) for name in stages for part in spec.stage(name).reads)
        return float(agents_learned_from(plan, state, [group]) * max(1, read_bytes))

    loads = {group: load(group, [stage.name for stage in spec.stages]) for group in sizes}
    packs = balance(loads, slots)
    # What folds sums over micro-batches needs all parts of a group that these were made from.
    halves = () if plan.config.pipeline.rollouts else halves_of(spec.stages, plan.config.algorithm.updates_per_round)
    half_loads = {group: [load(group, half) for half in halves] for group in loads}
    return divide(packs, loads, half_loads, slots) if halves else packs


def terms(plan: Plan, state: State) -> Terms:
    """The limits and prices of the planner."""
    config = plan.config
    functions = {name: plan.size_of(name) for name in PLACED}
    return Terms(
        prices=plan.prices,
        architecture=config.pricing.architecture,
        storage=config.pricing.storage,
        memory_mb={name: size.memory_mb for name, size in functions.items()},
        timeout_s={name: size.timeout_s for name, size in functions.items()},
        checkpoint_every=config.checkpoint_every,
        peak_mb=state.peaks,
        deadline_s=config.placement.deadline_s,
        dollars_per_hour=config.placement.dollars_per_hour,
        fixed=plan.platform.sizes_fixed,
        can_inline=plan.platform.can_inline,
        coordination_cost=coordination(plan, state),
    )


def coordination(plan: Plan, state: State) -> CoordinationCost:
    """Where the coordinator is, with the clock of AWS where functions run there."""
    if not plan.platform.latency:
        return coordination_cost.LOCAL
    latency = LATENCIES[plan.platform.latency][plan.config.pricing.storage]
    if plan.platform.can_inline:
        return coordination_cost.outside(latency)
    return coordination_cost.detached(latency, state.item_bytes)


def _table_bytes(config: RunConfig, spec: EnvSpec) -> int:
    """The most bytes of the tables that learners report of all agents in a round."""
    is_compared = (
        SHARING_MODES[config.sharing.rule].switches and similarity.DISTANCES[config.sharing.distance].needs == "density"
    )
    density = DENSITY_SAMPLES * DENSITY_DIMENSIONS if is_compared else 0
    outputs = sum(len(kind.agents) * kind.actions * (1 + kind.continuous) for kind in spec.classes)
    return 4 * (COMPARED_OBSERVATIONS * outputs + density * len(spec.agents))


def rollout_bytes(spec: EnvSpec, steps: int, episodes: int) -> float:
    """Bytes of a rollout's trajectory of so many steps and episodes, of all environments together, in the layout of
    `marless.functions.data.trajectory`, if every episode is truncated."""
    row, after = float(4 * spec.state_size + 1), float(4 * spec.state_size + 16)
    for kind in spec.classes:
        # Observation, action, log-probability, reward; terminated, alive; the mask.
        acts = len(kind.branches) or (kind.actions if kind.continuous else 1)
        row += len(kind.agents) * (4 * kind.observation_size + 4 * acts + 10 + (kind.actions if spec.masked else 0))
        after += len(kind.agents) * (4 * kind.observation_size + (kind.actions if spec.masked else 0))
    return row * steps + after * episodes + _NAMED_BYTES * (7 + 5 * len(spec.classes))


def round_price(plan: Plan, state: State) -> RoundPrice:
    """The price of the coming round at list prices, for rules that change weights: no clock and no bill enters.

    It is that of a round of the present team: of the configured placement where the scaling rule reads that, else
    the overhead of the MARLess paper's decomposition."""
    config = plan.config
    assert state.team is not None
    if SCALING_RULES[config.scaling.rule].floor is None:
        stages, storage = spec_of(plan).stages, config.pricing.storage
        return RoundPrice(list_overhead(plan.prices, len(state.env_spec.agents), stages, storage))
    groups = state.team.groups
    conditions = PricedRound(
        rule=config.scaling.priced_as or config.placement.rule,
        rollouts_per_invocation=config.placement.rollouts_per_invocation,
        inline_objects=config.placement.inline_objects,
        members=tuple(groups.count(group) for group in state.groups),
        stages=tuple(spec_of(plan).stages),
        updates=config.algorithm.updates_per_round,
        steps=rollout_steps(plan, state),
        most=config.scaling.rollouts,
        summing=_summing(plan, state),
        base_bytes=_base_bytes(plan),
    )
    return list_price(conditions, Tariff.of(plan.prices, config.pricing.architecture, config.pricing.storage))
