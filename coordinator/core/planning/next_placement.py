"""The placement of the coming round, as the user set it or as the planner finds cheapest, and its list price."""

import dataclasses
from collections.abc import Collection
from functools import partial
from typing import Any

from msgspec.structs import replace

from marless.coordinator.core import memory_bound
from marless.coordinator.core.controller import summaries
from marless.coordinator.core.planning.played_round import play
from marless.coordinator.core.rounds import agents_learned_from, fragments, rollout_steps, spec_of, undisturbed
from marless.coordinator.core.state import Plan, State
from marless.coordinator.placement import coordination_cost, planner
from marless.coordinator.placement.candidates import PlannerLimits, reduce_to_limits
from marless.coordinator.placement.coordination_cost import LATENCIES, CoordinationCost
from marless.coordinator.placement.layout import Layout, RoundWorkload
from marless.coordinator.placement.list_price import ITEM_BYTES, PricedPlacement, RoundPrice, Tariff, list_price
from marless.coordinator.placement.placement_rules import (
    PLACEMENTS,
    Packs,
    RoundPlacement,
    balance,
    divide,
    halves_of,
    list_overhead,
)
from marless.coordinator.rules.scaling import SCALING_RULES
from marless.coordinator.rules.sharing import SHARING_MODES
from marless.functions.environments.base import EnvSpec
from marless.functions.function_specs import PLACED
from marless.functions.messages.learner import COMPARED_OBSERVATIONS, DENSITY_DIMENSIONS, DENSITY_SAMPLES

# Bytes that stages publish for every row: advantage, target and value.
_PASSED_BYTES = 12
# Gradients of a network among sums, on average.
_GRADIENTS = 2
# Bytes of a tensor's name and shape in its object.
_NAMED_BYTES = 90
# Bytes that a round at list prices does not count.
_NOMINAL = ("rollout_bytes", "policy_bytes", "learner_bytes", "tensor_bytes", "table_bytes", "unfinished_bytes")
_PRICES: dict[object, RoundPrice] = {}


def place_round(plan: Plan, state: State) -> RoundPlacement:
    """The placement of the round that begins."""
    if not PLACEMENTS[plan.config.placement.rule].planned:
        return configured_placement(plan, state)
    return planner.plan(state.round, layout(plan, state), state.timings, terms(plan, state), state.round_placement)


def placement_changed(plan: Plan, state: State) -> bool:
    """Return whether the user has changed the placement since the round in flight began.

    With another number of slots the round keeps its packs, because their learners may have answered.
    """
    if PLACEMENTS[plan.config.placement.rule].planned:
        return False
    return replace(state.placement, packs=()) != replace(configured_placement(plan, state), packs=())


def configured_placement(plan: Plan, state: State) -> RoundPlacement:
    """The user's placement, reduced where messages of deployed functions cannot hold it."""
    settings = plan.config.placement
    rule = PLACEMENTS[settings.rule]
    assert not rule.planned
    packs = _packs(plan, state) if rule.packs_groups(len(state.groups), plan.platform) else ()
    round_placement = RoundPlacement(
        rule=settings.rule,
        rollouts_per_invocation=settings.pack,
        rounds=settings.chain,
        inline_objects=settings.inline_objects,
        checkpoint_every=plan.config.checkpoint_every,
        memory_mb={},
        packs=packs,
    )
    if not plan.platform.messages_limited:
        return round_placement
    return reduce_to_limits(round_placement, layout(plan, state, packs=packs), terms(plan, state))


def usual_layout(plan: Plan, state: State) -> Layout:
    """The tasks of a round of the state's team that is far from evaluations and from the run's end."""
    return layout(plan, state, most_rounds=undisturbed(plan, replace(state, round=0, env_steps=0)))


def layout(plan: Plan, state: State, **changes: Any) -> Layout:
    """The tasks of the coming round, with these `changes` of its workload."""
    round_workload = dataclasses.replace(workload(plan, state), **changes)
    return Layout(round_workload, partial(play, plan, state, round_workload))


def workload(plan: Plan, state: State) -> RoundWorkload:
    """The workload of the coming round."""
    assert state.team is not None
    groups = state.team.groups
    policies = {index for part, index in state.parts.items() if part.startswith("policy/")}
    steps, num_envs = rollout_steps(plan, state), plan.config.actors.num_envs
    episodes = num_envs * -(-steps // (num_envs * state.env_spec.horizon))
    return RoundWorkload(
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
        sums_bytes=_sums_bytes(plan, state),
        table_bytes=_table_bytes(plan, state),
        rollout_episodes=episodes,
        regroups=SHARING_MODES[plan.config.sharing.rule].switches,
        replays=plan.config.algorithm.replayed_steps > 0,
        packs=_packs(plan, state),
        unfinished_bytes=_unfinished_bytes(state.env_spec, num_envs) if fragments(plan, state) else 0.0,
        opponent_reads=max(len(one.policies) for one in state.league.checkpoints) if state.league else None,
        lag=plan.config.pipeline.lag,
        # An algorithm's own function need not serve a task of `whole`.
        needs_actors=state.league is not None or plan.config.pipeline.lag > 0 or bool(spec_of(plan).function),
    )


def _sums_bytes(plan: Plan, state: State) -> float | None:
    """Return the bytes of all groups' sums over a micro-batch. None without micro-batches."""
    if not plan.config.pipeline.micro_batch:
        return None
    assert state.team is not None
    sizes = memory_bound.part_sizes(plan.config, state.env_spec, state.team)
    return float(_GRADIENTS * sum(memory_bound.gradient_bytes(parts) for parts in sizes.values()))


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

    A group's work is expected to grow with the rows that it learns from and with the bytes that its stages read. Both
    are the same after a resume. Measured durations are known by kind of task only.
    """
    assert state.team is not None
    spec, slots = spec_of(plan), plan.platform.concurrency
    sizes = memory_bound.part_sizes(plan.config, state.env_spec, state.team)

    def load(group: int, stages: Collection[str]) -> float:
        read_bytes = sum(sizes[group].get(part, 0) for name in stages for part in spec.stage(name).reads)
        return float(agents_learned_from(plan, state, [group]) * max(1, read_bytes))

    loads = {group: load(group, [stage.name for stage in spec.stages]) for group in sizes}
    packs = balance(loads, slots)
    # A function that folds sums over micro-batches needs all parts of a group that the sums were made from.
    halves = () if plan.config.pipeline.micro_batch else halves_of(spec.stages, plan.config.algorithm.updates_per_round)
    half_loads = {group: [load(group, half) for half in halves] for group in loads}
    return divide(packs, loads, half_loads, slots) if halves else packs


def terms(plan: Plan, state: State) -> PlannerLimits:
    """The limits and prices of the planner."""
    config = plan.config
    functions = {name: plan.size_of(name) for name in PLACED}
    return PlannerLimits(
        prices=plan.prices,
        architecture=config.pricing.architecture,
        storage=config.pricing.storage,
        memory_mb={name: size.memory_mb for name, size in functions.items()},
        timeout_s={name: size.timeout_s for name, size in functions.items()},
        checkpoint_every=config.checkpoint_every,
        peak_mb=state.peaks,
        fixed=plan.platform.sizes_fixed,
        can_inline=plan.platform.can_inline,
        coordination_cost=coordination(plan, state),
    )


def coordination(plan: Plan, state: State) -> CoordinationCost:
    """Return the cost of coordination, with the clock of AWS if functions run there."""
    if not plan.platform.latency:
        return coordination_cost.LOCAL
    latency = LATENCIES[plan.platform.latency][plan.config.pricing.storage]
    if plan.platform.can_inline:
        return coordination_cost.outside(latency)
    return coordination_cost.detached(latency, state.item_bytes)


def _table_bytes(plan: Plan, state: State) -> int:
    """Return the most bytes of the tables of all agents that learners report in the coming round."""
    names, spec = summaries(plan.config, state.controller), state.env_spec
    outputs = sum(len(kind.agents) * kind.actions * (1 + kind.continuous) for kind in spec.classes)
    behaviour = COMPARED_OBSERVATIONS * outputs if "behaviour" in names else 0
    density = DENSITY_SAMPLES * DENSITY_DIMENSIONS * len(spec.agents) if "density" in names else 0
    return 4 * (behaviour + density)


def rollout_bytes(spec: EnvSpec, steps: int, episodes: int) -> float:
    """Bytes of a rollout's trajectory of so many steps and episodes, of all environments together, in the layout of
    `marless.functions.data.trajectory`, if every episode is truncated."""
    row, after = float(4 * spec.state_size + 1), float(4 * spec.state_size + 16)
    for kind in spec.classes:
        # Observation, action, log-probability, reward, terminated, alive, mask.
        acts = len(kind.branches) or (kind.actions if kind.continuous else 1)
        row += len(kind.agents) * (4 * kind.observation_size + 4 * acts + 10 + (kind.actions if spec.masked else 0))
        after += len(kind.agents) * (4 * kind.observation_size + (kind.actions if spec.masked else 0))
    return row * steps + after * episodes + _NAMED_BYTES * (7 + 5 * len(spec.classes))


def round_price(plan: Plan, state: State) -> RoundPrice:
    """Return the list price of the coming round, for rules that change weights. It depends on no clock or bill.

    The price is for a round of the present team. If the scaling rule reads the placement or spends, the configured
    placement counts, otherwise the overhead of the MARLess paper's decomposition."""
    config = plan.config
    assert state.team is not None
    if (scaling := SCALING_RULES[config.scaling.rule]).floor is None and not scaling.spends:
        stages, storage = spec_of(plan).stages, config.pricing.storage
        return RoundPrice(list_overhead(plan.prices, len(state.env_spec.agents), stages, storage))
    groups = state.team.groups
    settings = config.placement
    rule, most = config.scaling.priced_as or settings.rule, config.actors.rollouts
    priced = PricedPlacement(rule, settings.pack, settings.inline_objects, most)
    tariff = Tariff.of(plan.prices, config.pricing.architecture, config.pricing.storage)
    # Each round asks for the price, which depends on these alone.
    members = tuple(groups.count(group) for group in state.groups)
    inputs, sums = sum(ref.size for ref in plan.inputs.of_learners().refs()), _sums_bytes(plan, state)
    work = config.algorithm.updates_per_round, rollout_steps(plan, state), config.pipeline.micro_batch
    key = (priced, tariff, members, spec_of(plan), work, sums, inputs)
    if key not in _PRICES:
        _PRICES[key] = list_price(priced, partial(_nominal_layout, plan, state), tariff)
    return _PRICES[key]


def _nominal_layout(plan: Plan, state: State, rollouts: int) -> Layout:
    """A round of so many rollouts that are played to their ends against no league, with objects of nominal size."""
    plan = dataclasses.replace(plan, inputs=plan.inputs.of_learners())
    state = replace(state, controller=replace(state.controller, rollouts=rollouts))
    return layout(
        plan,
        state,
        agents=len(state.team.learners) if state.team else 0,
        ledger_bytes=ITEM_BYTES,
        packs=(),
        replays=False,
        opponent_reads=None,
        lag=0,
        **dict.fromkeys(_NOMINAL, 0.0),
    )
