"""Placement rules: how work is spread over invocations. They change cost and duration of a round, never its bytes."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import Protocol

from coordinator.pricing.prices import Prices, StorageClass
from coordinator.rule_families import Family, Rule
from functions.algorithms import schedule
from functions.algorithms.specification import Share, StageSpec
from functions.contract import Message
from functions.keys import group_name

# The kind of the task of an invocation that sums over a micro-batch.
SUMS = "grad"


@dataclass(frozen=True)
class Work:
    """The work of one learner invocation: some stages for some groups, in `updates` updates from `first` on.

    `publish`: other works of the same update need its tensors later.
    """

    name: str
    stages: tuple[str, ...]
    groups: tuple[int, ...]
    publish: bool = False
    first: int = 0
    updates: int = 1

    def kind(self, stages: Sequence[StageSpec]) -> str:
        """The kind of its task in an algorithm of these stages, as `coordinator.placement.timings` lists it."""
        return "learn" if len(self.stages) == len(stages) else f"learn:{'+'.join(self.stages)}"

    def reads(self, stages: Sequence[StageSpec]) -> Iterator[tuple[str, int]]:
        """The parts of the learner's state that it reads, each with its group."""
        return ((part, group) for stage in self._specs(stages) for part in stage.reads for group in self.groups)

    def writes(self, stages: Sequence[StageSpec]) -> Iterator[tuple[str, int]]:
        """The parts of the learner's state that it writes, each with its group."""
        return ((part, group) for stage in self._specs(stages) for part in stage.writes for group in self.groups)

    def trains(self, stages: Sequence[StageSpec]) -> bool:
        """Whether it writes policies."""
        return any("policy" in stage.writes for stage in self._specs(stages))

    def _specs(self, stages: Sequence[StageSpec]) -> Iterator[StageSpec]:
        return (stage for stage in stages if stage.name in self.stages)


def object_kind(part: str) -> str:
    """The kind of the object that holds a part of the learner's state."""
    return "policies" if part == "policy" else "learner"


Packs = tuple[tuple[int, ...], ...]
"""Groups that learn in one invocation, each ascending, by their first groups."""


class LearnerPlacement(Protocol):
    """Waves of works: the works of a wave may run at once, after the previous wave.

    `updates` is how often the stages run in the round, in sequence.
    """

    def __call__(self, stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]: ...


def split(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """One invocation per stage and group, the decomposition of the MARLess paper (Fig. 5); one for a team stage.

    A single stage runs all updates in one invocation; several wait for each other in every update.
    """
    return _works(schedule.split(stages, groups, updates), stages, updates)


def fused(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """One invocation per group with all its stages; stages that couple the groups split it into several."""
    return _works(schedule.fused_schedule(stages, groups, updates), stages, updates)


def packed(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """One invocation for everything."""
    return [[Work("learn/all", tuple(stage.name for stage in stages), tuple(groups), updates=updates)]]


def balanced(stages: Sequence[StageSpec], groups: Sequence[int], updates: int, packs: Packs) -> list[list[Work]]:
    """As `fused`, with the groups of a pack in one invocation; stages of the whole team are left as they are."""
    if len(packs) == 1:
        return packed(stages, groups, updates)
    # The work of a pack's first group becomes the pack's.
    pack_of = {pack[0]: pack for pack in packs}
    return [
        [
            work if len(work.groups) > 1 else _with_groups(work, pack_of[work.groups[0]], len(packs))
            for work in wave
            if len(work.groups) > 1 or work.groups[0] in pack_of
        ]
        for wave in fused(stages, groups, updates)
    ]


def balance(loads: Mapping[int, float], slots: int) -> Packs:
    """Groups with so much work each, in `slots` packs of about equal work: none takes over 4/3 of the least possible.

    The group with most work comes first, each into the pack that has least (Graham 1969, "Bounds on Multiprocessing
    Timing Anomalies"). Empty where every group has a slot of its own.
    """
    if slots >= len(loads):
        return ()
    packs: list[list[int]] = [[] for _ in range(max(1, slots))]
    pack_loads = [(0.0, number) for number in range(len(packs))]
    for group in sorted(loads, key=lambda group: (-loads[group], group)):
        load, number = pack_loads[0]
        packs[number].append(group)
        heapq.heapreplace(pack_loads, (load + loads[group], number))
    return tuple(sorted(tuple(sorted(pack)) for pack in packs))


def whole(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """No learner invocations: the function that samples learns too."""
    return []


def _works(shares: schedule.Schedule, stages: Sequence[StageSpec], updates: int) -> list[list[Work]]:
    """The shares as works."""
    return [[_work(share, stages, updates) for share in wave] for wave in shares]


def _with_groups(work: Work, pack: tuple[int, ...], packs: int) -> Work:
    """The work for a pack. Its name tells it from that of any other number of packs of the same groups."""
    before, group = work.name.rsplit("/", 1)
    return replace(work, name=f"{before}/of{packs}/{group}", groups=pack)


def _work(share: Share, stages: Sequence[StageSpec], updates: int) -> Work:
    """The share as a work, whose name has the updates, stages and group in which it differs from other works."""
    specs = [stage for stage in stages if stage.name in share.stages]
    later = {before for stage in stages if stage not in specs for before in stage.after}
    parts = ["learn"]
    if len(share.updates) < updates:
        parts.append(f"{share.updates.start:05d}")
    if len(specs) < len(stages):
        parts.append("+".join(share.stages))
    if len(specs) == len(stages) or specs[0].scope == "group":
        parts.append(group_name(share.groups[0]))
    return Work(
        "/".join(parts),
        tuple(share.stages),
        tuple(share.groups),
        not later.isdisjoint(share.stages),
        share.updates.start,
        len(share.updates),
    )


@dataclass(frozen=True)
class PlacementRule:
    """How a round's learning is spread over invocations; calling it returns the learners' schedule."""

    schedule: LearnerPlacement
    one_function: bool = False
    """Whether one function samples and learns, without learner invocations."""
    planned: bool = False
    """Whether the planner picks one of `LEARNER_PLACEMENTS` before every round."""
    balances: bool = False
    """Whether groups are packed into as many invocations as run at once, as by `balanced`."""

    def __call__(
        self, stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1, packs: Packs = ()
    ) -> list[list[Work]]:
        return balanced(stages, groups, updates, packs) if packs else self.schedule(stages, groups, updates)


PLACEMENTS: Family[PlacementRule] = Family(
    "placement",
    {
        "split": Rule("a learner per stage and group", PlacementRule(split)),
        "fused": Rule("a learner per group", PlacementRule(fused)),
        "balanced": Rule(
            "a learner per slot, with groups of about as much work each", PlacementRule(fused, balances=True)
        ),
        "packed": Rule(
            "one learner for all, the default where learners exchange tensors in every update", PlacementRule(packed)
        ),
        "whole": Rule("sampling and learning in one function", PlacementRule(whole, one_function=True)),
        "auto": Rule("the cheapest, chosen before every round", PlacementRule(packed, planned=True)),
    },
    PlacementRule,
)
# The planner chooses one of these.
LEARNER_PLACEMENTS: dict[str, PlacementRule] = {
    name: PLACEMENTS[name] for name in PLACEMENTS.built_in if not PLACEMENTS[name].planned
}
# Rules that code elsewhere names.
WHOLE, PACKED = "whole", "packed"


class RoundPlacement(Message, frozen=True, kw_only=True):
    """How a round is spread over invocations.

    `rounds`: how many rounds one task of `whole` runs; other rules ignore it. `inline_objects`: objects are sent inside
    messages and stored at checkpoints only, every `checkpoint_every` rounds. `memory_mb` by name of function; other
    functions have the configured size. `packs`: the groups that learn together, of `balanced`.
    """

    rule: str
    rollouts_per_invocation: int
    rounds: int = 1
    inline_objects: bool = False
    checkpoint_every: int
    memory_mb: dict[str, int]
    packs: Packs = ()

    @property
    def rounds_per_task(self) -> int:
        """Rounds per task."""
        return self.rounds if PLACEMENTS[self.rule].one_function else 1

    @property
    def style(self) -> str:
        """The part of the placement that durations depend on, besides the kind and the size of a task."""
        return f"{self.rule}+inline" if self.inline_objects else self.rule


def list_overhead(prices: Prices, agents: int, stages: Sequence[StageSpec], storage: StorageClass) -> float:
    """The cost of a round besides its rollouts, in prices of one rollout.

    Counts requests at list prices in the paper's decomposition (`split`, every agent a separate group), wherever the
    round runs and however long it takes: a weight must not depend on placement or on a clock. A rollout is an
    invocation, a PUT of its trajectory and a GET of it by every learner function. A round is, besides, an invocation of
    every learner function and a PUT of every object that these store: the learner's state, policies where the stage
    trains them, tensors where a later stage reads them.
    """
    s3 = prices.s3_class(storage)
    per_million = prices.lambda_.requests_per_million, 1000 * s3.put_per_thousand, 1000 * s3.get_per_thousand
    return _overhead(per_million, agents, tuple(stages))


@cache
def _overhead(per_million: tuple[Decimal, Decimal, Decimal], agents: int, stages: tuple[StageSpec, ...]) -> float:
    """By the prices of invocations, PUTs and GETs. Cached, because every decision asks for it."""
    request, put, get = (Fraction(price) / 1_000_000 for price in per_million)
    works = [work for wave in split(stages, range(agents)) for work in wave]
    trains = {stage.name for stage in stages if "policy" in stage.writes}
    object_count = sum(1 + work.publish + (not trains.isdisjoint(work.stages)) for work in works)
    return float((len(works) * request + object_count * put) / (request + put + len(works) * get))


def packs(rollouts: int, per_invocation: int) -> list[tuple[int, ...]]:
    """Rollouts 0..rollouts-1 in order, in packs of at most `per_invocation`."""
    return [tuple(range(start, min(start + per_invocation, rollouts))) for start in range(0, rollouts, per_invocation)]


@lru_cache(maxsize=64)
def packs_of_parts(rollouts: int, per_invocation: int, size: int) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Rollouts 0..rollouts-1 in order, in parts of `size`, each in packs of at most `per_invocation`; cached, because a
    round may have thousands."""
    return tuple(
        tuple(part[pack[0] : pack[-1] + 1] for pack in packs(len(part), per_invocation))
        for part in packs(rollouts, size)
    )
