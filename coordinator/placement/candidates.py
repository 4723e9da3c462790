"""The placements to choose from, within the limits of memory, messages and the platform."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from marless.coordinator.placement.coordination_cost import LOCAL, CoordinationCost
from marless.coordinator.placement.layout import Layout
from marless.coordinator.placement.list_price import Tariff
from marless.coordinator.placement.message_size import ASYNCHRONOUS_BYTES, HEADER_BYTES, SYNCHRONOUS_BYTES
from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS, PLACEMENTS, RoundPlacement
from marless.coordinator.pricing.prices import Architecture, Prices, StorageClass
from marless.functions.function_specs import PLACED

# Below a vCPU the price of a task hardly depends on memory: small sizes save only the rounding up to a millisecond.
SMALL_MB = (512, 1024)
# Objects inside messages are lost with the coordinator's process.
MOST_ROUNDS_UNSAVED = 10


@dataclass(frozen=True)
class PlannerLimits:
    """Conditions of a plan: prices, functions, and the user's limits.

    `memory_mb` and `timeout_s` are configured, by function. `peak_mb` is the most that they have used, and a function
    without measurements keeps its memory. `checkpoint_every` applies to stored objects. Inlined objects are stored at
    least every `MOST_ROUNDS_UNSAVED` rounds. With `fixed` functions have the memory they were deployed with. If
    `can_inline` is False, no process keeps objects between waves, because requests are events and answers are stored.
    `coordination_cost` depends on where the coordinator runs.
    """

    prices: Prices
    architecture: Architecture
    storage: StorageClass
    memory_mb: Mapping[str, int]
    timeout_s: Mapping[str, float]
    checkpoint_every: int
    peak_mb: Mapping[str, float]
    fixed: bool = False
    can_inline: bool = True
    coordination_cost: CoordinationCost = LOCAL

    @cached_property
    def tariff(self) -> Tariff:
        """The unit prices."""
        return Tariff.of(self.prices, self.architecture, self.storage)


def options(layout: Layout, terms: PlannerLimits) -> list[RoundPlacement]:
    """All placements worth a forecast."""
    workload = layout.workload
    sizes = sorted({*(1 << power for power in range(workload.rollouts.bit_length())), workload.rollouts})
    if workload.opponent_reads is not None:
        sizes = [1]
    candidates = [
        RoundPlacement(
            rule=rule,
            rollouts_per_invocation=rollouts,
            rounds=rounds,
            inline_objects=inline_objects,
            checkpoint_every=whole_tasks(_most_unsaved(inline_objects, terms), rounds),
            memory_mb=memory,
            packs=layout.packs(rule),
        )
        for rule in LEARNER_PLACEMENTS
        if _is_distinct(rule, layout)
        for memory in _memories(rule, terms)
        for rollouts in (sizes[-1:] if PLACEMENTS[rule].one_function else sizes)
        for inline_objects in (False, True)[: 1 + (terms.can_inline and not workload.replays)]
        for rounds in sorted({1, _most_rounds(rule, inline_objects, layout, terms)})
    ]
    # If no messages are small enough, the platform decides whether stored objects work.
    return [round_placement for round_placement in candidates if is_possible(round_placement, layout, terms)] or [
        round_placement for round_placement in candidates if not round_placement.inline_objects
    ]


def reduce_to_limits(round_placement: RoundPlacement, layout: Layout, terms: PlannerLimits) -> RoundPlacement:
    """Return `round_placement` within the platform's limits on messages.

    If messages would be too large or cannot hold objects, it takes fewer rounds per task, then objects in storage.
    Last, it takes more rollouts per invocation, which share one trajectory object."""
    inlining = (True, False) if round_placement.inline_objects and terms.can_inline else (False,)
    size = round_placement.rollouts_per_invocation
    while True:
        for inline_objects in inlining:
            fitting = _with_fewer_rounds(round_placement, inline_objects, layout, terms)
            if _messages_fit(fitting, layout, terms):
                return fitting
        if size >= layout.workload.rollouts:
            # The platform decides.
            return fitting
        size *= 2
        round_placement = replace(round_placement, rollouts_per_invocation=min(size, layout.workload.rollouts))


def _with_fewer_rounds(
    round_placement: RoundPlacement, inline_objects: bool, layout: Layout, terms: PlannerLimits
) -> RoundPlacement:
    rounds = round_placement.rounds
    if PLACEMENTS[round_placement.rule].one_function:
        rounds = min(rounds, layout.most_rounds(inline_objects, _answer_limit(terms)))
    return replace(round_placement, inline_objects=inline_objects, rounds=rounds)


def update_rounds(current: RoundPlacement, layout: Layout, terms: PlannerLimits) -> RoundPlacement:
    """The current placement with as many rounds per task as are possible now, checkpoints at the ends of tasks, and the
    coming round's packs."""
    rounds = _most_rounds(current.rule, current.inline_objects, layout, terms)
    interval = _most_unsaved(current.inline_objects, terms)
    packs = layout.packs(current.rule)
    return replace(current, rounds=rounds, checkpoint_every=whole_tasks(interval, rounds), packs=packs)


def _most_unsaved(inline_objects: bool, terms: PlannerLimits) -> int:
    return min(MOST_ROUNDS_UNSAVED, terms.checkpoint_every) if inline_objects else terms.checkpoint_every


def is_possible(round_placement: RoundPlacement, layout: Layout, terms: PlannerLimits) -> bool:
    """Return whether memory and messages are large enough and the rule differs from the other rules here."""
    rule = round_placement.rule
    if round_placement.memory_mb not in _memories(rule, terms) or not _is_distinct(rule, layout):
        return False
    return (terms.can_inline or not round_placement.inline_objects) and _messages_fit(round_placement, layout, terms)


def _is_distinct(rule: str, layout: Layout) -> bool:
    """Return False if `balanced` equals `packed` (one slot) or `fused` (a slot for every group). Also False if the
    round needs actors and the rule has none."""
    if PLACEMENTS[rule].one_function and layout.workload.needs_actors:
        return False
    return not PLACEMENTS[rule].balances or len(layout.workload.packs) > 1


def whole_tasks(rounds: int, per_task: int) -> int:
    """The most rounds up to `rounds` that tasks of `per_task` rounds fill, at least one task."""
    return max(1, rounds // per_task) * per_task


def _most_rounds(rule: str, inline_objects: bool, layout: Layout, terms: PlannerLimits) -> int:
    """Return the most rounds of one task. With stored objects this is at most the user's checkpoint interval."""
    if not PLACEMENTS[rule].one_function:
        return 1
    most = min(layout.workload.most_rounds, layout.most_rounds(inline_objects, _answer_limit(terms)))
    return most if inline_objects else min(most, terms.checkpoint_every)


def _messages_fit(round_placement: RoundPlacement, layout: Layout, terms: PlannerLimits) -> bool:
    largest = SYNCHRONOUS_BYTES if terms.can_inline else ASYNCHRONOUS_BYTES
    return layout.request_bytes(round_placement) <= largest and layout.answer_bytes(round_placement) <= _answer_limit(
        terms
    )


def _answer_limit(terms: PlannerLimits) -> float:
    return SYNCHRONOUS_BYTES if terms.can_inline else HEADER_BYTES


def _memories(rule: str, terms: PlannerLimits) -> list[dict[str, int]]:
    """Return memory by function: as configured, and at most a vCPU for a known peak if sizes may change.

    `whole` does the work of both functions in one, so it needs the sum of their peaks. With fixed sizes it is left out
    if the sum is known to be larger.
    """
    needs = {name: terms.peak_mb[name] for name in PLACED if name in terms.peak_mb}
    names = [*PLACED]
    one_function = PLACEMENTS[rule].one_function
    if one_function:
        names, needs = ["learner"], {"learner": sum(needs.values())} if len(needs) == len(names) else {}
    if terms.fixed:
        enough = not one_function or needs.get("learner", 0.0) <= terms.memory_mb["learner"]
        return [{name: terms.memory_mb[name] for name in names}] if enough else []
    sizes: list[dict[str, int]] = []
    for size in (*SMALL_MB, terms.prices.lambda_.mb_per_vcpu):
        memory = {name: max(size, math.ceil(needs[name])) if name in needs else terms.memory_mb[name] for name in names}
        if memory not in sizes:
            sizes.append(memory)
    return sizes
