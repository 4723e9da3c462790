"""Placement rules: how work is spread over invocations. They change cost and duration of a round, never its bytes."""

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import Protocol

from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import Prices, StorageClass
from marless.functions.algorithms import schedule
from marless.functions.algorithms.specification import Share, StageSpec
from marless.functions.keys import group_name
from marless.functions.messages.message import Message
from marless.functions.plug_in_registry import Family, Rule

# The kind of the task of an invocation that sums over a micro-batch.
SUMS = "grad"


@dataclass(frozen=True)
class Work:
    """The work of one learner invocation: some stages for some groups, in `updates` updates from `first` on.

    `publish`: other works of the same update need its tensors later. `omissions`: pairs of a stage and a group that
    it leaves to another work.
    """

    name: str
    stages: tuple[str, ...]
    groups: tuple[int, ...]
    publish: bool = False
    first: int = 0
    updates: int = 1
    omissions: tuple[tuple[str, int], ...] = ()

    def kind(self, stages: Sequence[StageSpec]) -> str:
        """The kind of its task in an algorithm of these stages, as `marless.coordinator.placement.timings` lists it."""
        return "learn" if len(self.stages) == len(stages) else f"learn:{'+'.join(self.stages)}"

    def reads(self, stages: Sequence[StageSpec]) -> Iterator[tuple[str, int]]:
        """The parts of the learner's state that it reads, each with its group."""
        return ((part, group) for stage, group in self.runs(stages) for part in stage.reads)

    def writes(self, stages: Sequence[StageSpec]) -> Iterator[tuple[str, int]]:
        """The parts of the learner's state that it writes, each with its group."""
        return ((part, group) for stage, group in self.runs(stages) for part in stage.writes)

    def trains(self, stages: Sequence[StageSpec]) -> bool:
        """Return whether it writes policies."""
        return any("policy" in stage.writes for stage, _ in self.runs(stages))

    def runs(self, stages: Sequence[StageSpec]) -> Iterator[tuple[StageSpec, int]]:
        """The stages that it runs, each with its group, in an algorithm of these stages."""
        pairs = ((stage, group) for stage in stages if stage.name in self.stages for group in self.groups)
        return (pair for pair in pairs if (pair[0].name, pair[1]) not in self.omissions)

    def size(self, rows: Callable[[Sequence[int]], int]) -> float:
        """The size of its task, from the `rows` that groups learn from: all stages of a group count alike."""
        omitted_rows = sum(rows([group]) for _, group in self.omissions)
        return rows(self.groups) - omitted_rows / len(self.stages) if self.omissions else rows(self.groups)


def object_kind(part: str) -> str:
    """The kind of the object that holds a part of the learner's state."""
    return "policies" if part == "policy" else "learner"


Packs = tuple[tuple[int, ...], ...]
"""Groups that learn in one invocation, each ascending. Of a group in two packs each does one of the `halves_of`."""


class LearnerPlacement(Protocol):
    """Waves of works: the works of a wave may run at once, after the previous wave.

    `updates` is how often the stages run in the round, in sequence.
    """

    def __call__(self, stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]: ...


def split(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """Make one invocation per stage and group, the decomposition of the MARLess paper (figure 5).

    A team stage has one invocation. A single stage runs all updates at once, but several wait in every update.
    """
    return _works(schedule.split(stages, groups, updates), stages, updates)


def fused(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """Make one invocation per group with all its stages. Stages that couple the groups split it into several."""
    return _works(schedule.fused_schedule(stages, groups, updates), stages, updates)


def packed(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """One invocation for everything."""
    return [[Work("learn/all", tuple(stage.name for stage in stages), tuple(groups), updates=updates)]]


def balanced(stages: Sequence[StageSpec], groups: Sequence[int], updates: int, packs: Packs) -> list[list[Work]]:
    """Divide the work like `fused`, with a pack's groups in one invocation. Stages of the whole team stay whole."""
    if len(packs) == 1:
        return packed(stages, groups, updates)
    return [
        [
            pack_work
            for work in wave
            for pack_work in ([work] if len(work.groups) > 1 else _of_packs(work, packs, halves_of(stages, updates)))
        ]
        for wave in fused(stages, groups, updates)
    ]


def halves_of(stages: Sequence[StageSpec], updates: int) -> tuple[tuple[str, ...], ...]:
    """Return the stages of the two halves of a group's work that two invocations may do at once.

    Final stages alternate between the halves, and both repeat the stages that these wait for. Empty if groups or
    updates wait for each other, or only one stage is final.
    """
    awaited = {before for stage in stages for before in stage.after}
    ends = [stage.name for stage in stages if stage.name not in awaited]
    if updates > 1 or len(ends) < 2 or len(fused(stages, (0,))[0][0].stages) < len(stages):
        return ()
    return _up_to(stages, ends[::2]), _up_to(stages, ends[1::2])


def _up_to(stages: Sequence[StageSpec], ends: Sequence[str]) -> tuple[str, ...]:
    names = {*ends}
    for stage in reversed(stages):
        names.update(stage.after if stage.name in names else ())
    return tuple(stage.name for stage in stages if stage.name in names)


def balance(loads: Mapping[int, float], slots: int) -> Packs:
    """Pack groups with these loads into `slots` packs of about equal work, at most 4/3 of the least possible.

    The group with most work comes first, each into the pack that has least (Graham 1969, "Bounds on Multiprocessing
    Timing Anomalies"). Empty if every group has a slot.
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


def divide(packs: Packs, loads: Mapping[int, float], half_loads: Mapping[int, Sequence[float]], slots: int) -> Packs:
    """Return `packs`, made by `balance` of these `loads`, with some groups halved if that reduces the largest pack's
    work.

    `half_loads`: the work of a group's halves (`halves_of`). Halves move from the heaviest pack to the lightest.
    """
    new = [[*pack] for pack in packs or [(group,) for group in loads]]
    pack_loads = [sum(loads[group] for group in pack) for pack in new]
    most, whole_groups = max(pack_loads), {*loads}
    while True:
        if len(new) < slots and all(new):
            new.append([])
            pack_loads.append(0.0)
        heavy, light = (pick(range(len(new)), key=pack_loads.__getitem__) for pick in (max, min))
        moves = []
        for group in whole_groups.intersection(new[heavy]):
            stays, goes = half_loads[group] if heavy < light else reversed(half_loads[group])
            moves.append((pack_loads[heavy] - loads[group] + stays, pack_loads[light] + goes, group))
        best = min(moves, key=lambda move: (max(move[:2]), move), default=None)
        if best is None or max(best[:2]) >= pack_loads[heavy]:
            return tuple(tuple(sorted(pack)) for pack in new if pack) if max(pack_loads) < most else packs
        pack_loads[heavy], pack_loads[light], group = best
        new[light].append(group)
        whole_groups.remove(group)


def whole(stages: Sequence[StageSpec], groups: Sequence[int], updates: int = 1) -> list[list[Work]]:
    """No learner invocations: the function that samples learns too."""
    return []


def _works(shares: schedule.Schedule, stages: Sequence[StageSpec], updates: int) -> list[list[Work]]:
    return [[_work(share, stages, updates) for share in wave] for wave in shares]


def _of_packs(work: Work, packs: Packs, halves: Sequence[Sequence[str]]) -> Iterator[Work]:
    """Yield the works of the packs that begin with the first group of `work`. Their names contain the number of packs,
    which distinguishes other divisions of the same groups."""
    before, _ = work.name.rsplit("/", 1)
    for number, pack in enumerate(packs):
        if pack[0] == work.groups[0]:
            omissions = tuple(
                (stage, group)
                for group in pack
                for half in _half_of(group, packs, number)
                for stage in work.stages
                if stage not in halves[half]
            )
            yield replace(work, name=f"{before}/of{len(packs)}/{number:03d}", groups=pack, omissions=omissions)


def _half_of(group: int, packs: Packs, number: int) -> list[int]:
    """Return the half of the group's work that the pack does: [0] or [1], or [] for a whole group."""
    holders = [other for other, pack in enumerate(packs) if group in pack]
    return [holders.index(number)] if len(holders) > 1 else []


def _work(share: Share, stages: Sequence[StageSpec], updates: int) -> Work:
    """Return the share as a work. Its name has the updates, stages and group that distinguish it from other works."""
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
    """A way to spread a round's learning over invocations. Calling it returns the learners' schedule."""

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

    def packs_groups(self, groups: int, platform: Platform) -> bool:
        """Return whether the groups are packed by slots. It is False if each group has a slot and more slots cost
        money: half a group in each would only buy invocations and requests."""
        return self.balances and (platform.idle_slots_free or platform.concurrency < groups)


PLACEMENTS: Family[PlacementRule] = Family(
    "placement",
    {
        "split": Rule("a learner per stage and group", PlacementRule(split)),
        "fused": Rule("a learner per group", PlacementRule(fused)),
        "balanced": Rule(
            "the default: a learner per slot, with about as much work each, or in the cloud `auto`",
            PlacementRule(fused, balances=True),
        ),
        "packed": Rule(
            "one learner for all, the default if learners exchange tensors in every update", PlacementRule(packed)
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
WHOLE, PACKED, FUSED, AUTO = "whole", "packed", "fused", "auto"


class RoundPlacement(Message, frozen=True, kw_only=True):
    """The way that a round is spread over invocations.

    `rounds`: the rounds of one task of `whole`, ignored by other rules. `inline_objects`: objects are sent inside
    messages and stored at checkpoints only, every `checkpoint_every` rounds. `memory_mb` by name of function. Other
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

    Counts requests at list prices in the paper's decomposition (`split`, every agent a separate group). A weight must
    not depend on placement or a clock, so both are ignored. A rollout is an invocation, a PUT of its trajectory and a
    GET of it by every learner function. The rest of a round is an invocation of every learner function and a PUT of
    every object that it stores. Objects are the learner's state, policies if the stage trains them, and tensors that a
    later stage reads.
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
    """Return rollouts 0..rollouts-1 in order, in parts of `size`, each in packs of at most `per_invocation`. Cached,
    because a round may have thousands."""
    return tuple(
        tuple(part[pack[0] : pack[-1] + 1] for pack in packs(len(part), per_invocation))
        for part in packs(rollouts, size)
    )
