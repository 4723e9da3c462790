"""Which placements there are to choose from: what memory, messages and the platform let be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from coordinator.placement.coordination_cost import LOCAL, CoordinationCost
from coordinator.placement.message_size import ASYNCHRONOUS_BYTES, HEADER_BYTES, SYNCHRONOUS_BYTES
from coordinator.placement.round_placement import RoundPlacement
from coordinator.placement.rules import LEARNER_PLACEMENTS, PLACEMENTS
from coordinator.placement.workload import Layout, Workload
from coordinator.pricing.prices import Architecture, Prices, StorageClass

# Below a vCPU the price of a task hardly depends on memory: what small sizes save is the rounding up to a millisecond.
SMALL_MB = (512, 1024)


@dataclass(frozen=True)
class Terms:
    """What a plan is made under: prices, functions, and what the user asked for.

    `memory_mb` and `timeout_s` by function as configured, `peak_mb` what they were seen to need at most; a function
    whose need is not known keeps its memory. `checkpoint_every` holds wherever objects are stored. At most one of
    `deadline_s` (of a round) and `dollars_per_hour` is given. With `fixed` functions have the memory they were deployed
    with. Without `can_inline` nobody lives from wave to wave who could carry objects: requests are events, and answers
    are stored. `coordination_cost` is where the coordinator is.
    """

    prices: Prices
    architecture: Architecture
    storage: StorageClass
    memory_mb: Mapping[str, int]
    timeout_s: Mapping[str, float]
    checkpoint_every: int
    peak_mb: Mapping[str, float]
    deadline_s: float | None = None
    dollars_per_hour: float | None = None
    fixed: bool = False
    can_inline: bool = True
    coordination_cost: CoordinationCost = LOCAL


def options(layout: Layout, terms: Terms) -> list[RoundPlacement]:
    """All placements worth a forecast; those that carry are still to be given their distance of checkpoints."""
    workload = layout.workload
    sizes = sorted({*(1 << power for power in range(workload.rollouts.bit_length())), workload.rollouts})
    candidates = [
        RoundPlacement(
            rule=rule,
            rollouts_per_invocation=rollouts,
            rounds=rounds,
            inline_objects=inline_objects,
            checkpoint_every=whole_tasks(terms.checkpoint_every, rounds),
            memory_mb=memory,
        )
        for rule in LEARNER_PLACEMENTS
        for memory in _memories(rule, terms)
        for rollouts in (sizes[-1:] if PLACEMENTS[rule].one_function else sizes)
        for inline_objects in (False, True)[: 1 + (terms.can_inline and not workload.replays)]
        for rounds in sorted({1, _most_rounds(rule, inline_objects, layout, terms)})
    ]
    # Where nothing is small enough for messages, the platform has the last word.
    return [round_placement for round_placement in candidates if is_possible(round_placement, layout, terms)] or [
        round_placement for round_placement in candidates if not round_placement.inline_objects
    ]


def reduce_to_limits(round_placement: RoundPlacement, workload: Workload, terms: Terms) -> RoundPlacement:
    """`round_placement` as the platform lets it be: fewer rounds in a task, or objects in storage, where messages would
    be too large, and no objects in messages where nobody carries them."""
    layout = Layout(workload)
    for inline_objects in (True, False) if round_placement.inline_objects and terms.can_inline else (False,):
        most = (
            layout.most_rounds(inline_objects, _answer_limit(terms))
            if PLACEMENTS[round_placement.rule].one_function
            else round_placement.rounds
        )
        fitting = replace(round_placement, inline_objects=inline_objects, rounds=min(round_placement.rounds, most))
        if _messages_fit(fitting, layout, terms):
            break
    return fitting


def update_rounds(current: RoundPlacement, layout: Layout, terms: Terms) -> RoundPlacement:
    """The present placement as it goes on: as many rounds as nobody looks in now, checkpoints at their ends."""
    rounds = _most_rounds(current.rule, current.inline_objects, layout, terms)
    distance = current.checkpoint_every if current.inline_objects else terms.checkpoint_every
    return replace(current, rounds=rounds, checkpoint_every=whole_tasks(distance, rounds))


def is_possible(round_placement: RoundPlacement, layout: Layout, terms: Terms) -> bool:
    """Whether memory and messages hold what they must."""
    if round_placement.memory_mb not in _memories(round_placement.rule, terms):
        return False
    return (terms.can_inline or not round_placement.inline_objects) and _messages_fit(round_placement, layout, terms)


def whole_tasks(rounds: int, together: int) -> int:
    """The most rounds up to `rounds` that tasks of `together` rounds fill, one task at least."""
    return max(1, rounds // together) * together


def _most_rounds(rule: str, inline_objects: bool, layout: Layout, terms: Terms) -> int:
    """How many rounds one task may run; where objects are stored the user's distance of checkpoints holds too."""
    if not PLACEMENTS[rule].one_function:
        return 1
    most = min(layout.workload.most_rounds, layout.most_rounds(inline_objects, _answer_limit(terms)))
    return most if inline_objects else min(most, terms.checkpoint_every)


def _messages_fit(round_placement: RoundPlacement, layout: Layout, terms: Terms) -> bool:
    """Whether all messages are small enough."""
    largest = SYNCHRONOUS_BYTES if terms.can_inline else ASYNCHRONOUS_BYTES
    return layout.request_bytes(round_placement) <= largest and layout.answer_bytes(round_placement) <= _answer_limit(
        terms
    )


def _answer_limit(terms: Terms) -> float:
    return SYNCHRONOUS_BYTES if terms.can_inline else HEADER_BYTES


def _memories(rule: str, terms: Terms) -> list[dict[str, int]]:
    """Memory by function: as configured, and a vCPU or less where what they need is known and sizes may change.

    `whole` does the work of both functions in one, so it needs what they need together; where sizes may not change it
    is left out if they are known to need more.
    """
    needs = {name: terms.peak_mb[name] for name in ("actor", "learner") if name in terms.peak_mb}
    names = ["actor", "learner"]
    one_function = PLACEMENTS[rule].one_function
    if one_function:
        names, needs = ["learner"], {"learner": sum(needs.values())} if len(needs) == len(names) else {}
    if terms.fixed:
        enough = not one_function or needs.get("learner", 0.0) <= terms.memory_mb["learner"]
        return [{name: terms.memory_mb[name] for name in names}] if enough else []
    found: list[dict[str, int]] = []
    for size in (*SMALL_MB, terms.prices.lambda_.mb_per_vcpu):
        memory = {name: max(size, math.ceil(needs[name])) if name in needs else terms.memory_mb[name] for name in names}
        if memory not in found:
            found.append(memory)
    return found
