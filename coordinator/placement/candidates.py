"""Which placements there are to choose from: what memory, messages and the platform let be."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from coordinator.placement.coordination_cost import HERE, Site
from coordinator.placement.message_size import ASYNCHRONOUS_BYTES, HEADER_BYTES, SYNCHRONOUS_BYTES
from coordinator.placement.placing import Placing
from coordinator.placement.rules import LEARNER_PLACEMENTS, Rule
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
    with. Without `carries` nobody lives from wave to wave who could carry objects: requests are events, and answers are
    stored. `site` is where the coordinator is.
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
    carries: bool = True
    site: Site = HERE


def options(layout: Layout, terms: Terms) -> list[Placing]:
    """All placements worth a forecast; those that carry are still to be given their distance of checkpoints."""
    workload = layout.workload
    sizes = sorted({*(1 << power for power in range(workload.units.bit_length())), workload.units})
    placings = [
        Placing(
            rule=rule,
            units_per_invocation=units,
            rounds=rounds,
            carry=carry,
            checkpoint_every=whole_tasks(terms.checkpoint_every, rounds),
            memory_mb=memory,
        )
        for rule in LEARNER_PLACEMENTS
        for memory in _memories(rule, terms)
        for units in (sizes if rule != "whole" else sizes[-1:])
        for carry in (False, True)[: 1 + (terms.carries and not workload.replays)]
        for rounds in sorted({1, _most_rounds(rule, carry, layout, terms)})
    ]
    # Where nothing is small enough for messages, the platform has the last word.
    return [placing for placing in placings if possible(placing, layout, terms)] or [
        placing for placing in placings if not placing.carry
    ]


def admitted(placing: Placing, workload: Workload, terms: Terms) -> Placing:
    """`placing` as the platform lets it be: fewer rounds in a task, or objects in storage, where messages would be too
    large, and no objects in messages where nobody carries them."""
    layout = Layout(workload)
    for carry in (True, False) if placing.carry and terms.carries else (False,):
        most = layout.most_rounds(carry, _answer_limit(terms)) if placing.rule == "whole" else placing.rounds
        fitting = replace(placing, carry=carry, rounds=min(placing.rounds, most))
        if _sent(fitting, layout, terms):
            break
    return fitting


def fitted(current: Placing, layout: Layout, terms: Terms) -> Placing:
    """The present placement as it goes on: as many rounds as nobody looks in now, checkpoints at their ends."""
    rounds = _most_rounds(current.rule, current.carry, layout, terms)
    distance = current.checkpoint_every if current.carry else terms.checkpoint_every
    return replace(current, rounds=rounds, checkpoint_every=whole_tasks(distance, rounds))


def possible(placing: Placing, layout: Layout, terms: Terms) -> bool:
    """Whether memory and messages hold what they must."""
    if placing.memory_mb not in _memories(placing.rule, terms):
        return False
    return (terms.carries or not placing.carry) and _sent(placing, layout, terms)


def whole_tasks(rounds: int, together: int) -> int:
    """The most rounds up to `rounds` that tasks of `together` rounds fill, one task at least."""
    return max(1, rounds // together) * together


def _most_rounds(rule: Rule, carry: bool, layout: Layout, terms: Terms) -> int:
    """How many rounds one task may run; where objects are stored the user's distance of checkpoints holds too."""
    if rule != "whole":
        return 1
    most = min(layout.workload.most_rounds, layout.most_rounds(carry, _answer_limit(terms)))
    return most if carry else min(most, terms.checkpoint_every)


def _sent(placing: Placing, layout: Layout, terms: Terms) -> bool:
    """Whether all messages are small enough."""
    largest = SYNCHRONOUS_BYTES if terms.carries else ASYNCHRONOUS_BYTES
    return layout.request_bytes(placing) <= largest and layout.answer_bytes(placing) <= _answer_limit(terms)


def _answer_limit(terms: Terms) -> float:
    return SYNCHRONOUS_BYTES if terms.carries else HEADER_BYTES


def _memories(rule: Rule, terms: Terms) -> list[dict[str, int]]:
    """Memory by function: as configured, and a vCPU or less where what they need is known and sizes may change.

    `whole` does the work of both functions in one, so it needs what they need together; where sizes may not change it
    is left out if they are known to need more.
    """
    needs = {name: terms.peak_mb[name] for name in ("actor", "learner") if name in terms.peak_mb}
    names = ["actor", "learner"]
    if rule == "whole":
        names, needs = ["learner"], {"learner": sum(needs.values())} if len(needs) == len(names) else {}
    if terms.fixed:
        enough = rule != "whole" or needs.get("learner", 0.0) <= terms.memory_mb["learner"]
        return [{name: terms.memory_mb[name] for name in names}] if enough else []
    found: list[dict[str, int]] = []
    for size in (*SMALL_MB, terms.prices.lambda_.mb_per_vcpu):
        memory = {name: max(size, math.ceil(needs[name])) if name in needs else terms.memory_mb[name] for name in names}
        if memory not in found:
            found.append(memory)
    return found
