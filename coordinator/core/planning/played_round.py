"""Play a round before it runs: count the tasks of the round graph as a placement rule would spread them.

The graph gets a state with the answers of all tasks of the round, and with objects of predicted sizes. One task plays
all rollouts of a micro-batch. The layout spreads them over invocations, so that thousands cost as much time as one.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, groupby
from typing import NamedTuple

from msgspec.structs import replace

from marless.coordinator.core import rounds
from marless.coordinator.core.round_graph import Gate, round_gates
from marless.coordinator.core.round_nodes import Node
from marless.coordinator.core.rounds import WHOLE, index_objects, learner_schedule, locations_after_learning, sum_works
from marless.coordinator.core.state import Plan, Slot, State, WorkItem
from marless.coordinator.placement.layout import (
    BEFORE,
    PlannedGate,
    PlannedTask,
    PlayedRound,
    RoundWorkload,
    report_bytes,
    sampling_bytes,
)
from marless.coordinator.placement.placement_rules import PLACEMENTS, RoundPlacement, Work, object_kind
from marless.functions import keys
from marless.functions.function_specs import share_of
from marless.functions.messages.actor import SampleTask, Unfinished
from marless.functions.messages.exchange import Done
from marless.functions.messages.learner import LearnReply, LearnTask, Past
from marless.functions.messages.message import Ref

_ITEM = WorkItem(function="", memory_mb=0, kind="")


class _Prediction(NamedTuple):
    """The state of a round with the answers of all tasks. By key of an object: `sizes`, the bytes of objects that tasks
    read, except trajectories. `rollouts`, the number of rollouts in a trajectory. `after`, the bytes of objects with
    the learner's state after the round."""

    state: State
    sizes: dict[str, float]
    rollouts: dict[str, int]
    after: dict[str, float]


def play(plan: Plan, state: State, workload: RoundWorkload, rule: str) -> PlayedRound:
    """Play the round that begins, as `rule` places it, after a round of the same placement and without evaluations."""
    prediction = _predict(plan, _begun(plan, state, workload, rule), workload)
    playing, learning = round_gates(plan, prediction.state)
    samples = [gate for gate in playing if gate.name.startswith("sample")]
    sums = playing[len(samples) :]
    tasks = _tasks_by_gate(plan, [*playing, *learning], prediction, workload)
    tasks[samples[0].name] = [task for gate in samples for task in tasks[gate.name]]
    order = [*learning, samples[0]] if plan.config.pipeline.lag else [samples[0], *sums, *learning]
    positions = dict.fromkeys((gate.name for gate in samples), 0)
    positions |= {gate.name: position for position, gate in enumerate(order)}
    # Sampling is one gate. All micro-batches but the last count as summed at the same time as sampling.
    beside = {gate.name for gate in sums[:-1]}
    gates = [
        PlannedGate(
            [task._replace(number=len([*equal])) for task, equal in groupby(tasks[gate.name])],
            () if gate.name in beside else tuple(sorted({positions[name] for name in gate.after})),
        )
        for gate in order
    ]
    return PlayedRound(gates, prediction.after)


def _begun(plan: Plan, state: State, workload: RoundWorkload, rule: str) -> State:
    """The state at the beginning of such a round, late enough for it to learn with a lag. Actors also read the policies
    of opponents in a league."""
    before = {f"{part}/{keys.group_name(group)}": f"{BEFORE}/{object_kind(part)}" for part, group in _parts(workload)}
    before |= {f"policy/{number}": f"opponent/{number}" for number in range(workload.opponent_reads or 0)}
    objects, parts = index_objects({part: _object(key) for part, key in before.items()})
    round_placement = RoundPlacement(
        rule=rule,
        rollouts_per_invocation=workload.rollouts,
        checkpoint_every=1,
        memory_mb={},
        packs=workload.packs if PLACEMENTS[rule].balances else (),
    )
    number = max(state.round, plan.config.pipeline.lag)
    state = replace(state, round=number, round_placement=round_placement, objects=objects, parts=parts)
    return replace(state, warm_rounds={}, league=None, past=(), unfinished=())


def _parts(workload: RoundWorkload) -> list[tuple[str, int]]:
    parts = {"policy", *(part for stage in workload.stages for part in (*stage.reads, *stage.writes))}
    return [(part, group) for part in sorted(parts) for group in sorted(workload.members)]


def _object(key: str) -> Ref:
    return Ref(key=key, sha256="", size=0)


def _predict(plan: Plan, state: State, workload: RoundWorkload) -> _Prediction:
    """Predict all answers of the round. An equal round before it made objects with the same keys."""
    packs, lag = rounds.rollout_packs(plan, state), plan.config.pipeline.lag
    works = [*chain.from_iterable(learner_schedule(plan, state))]
    sums = [*chain.from_iterable(sum_works(plan, state))]
    answers = {
        name: {kind: _object(f"{name}/{kind}") for kind in kinds}
        for name, kinds in (
            *((name, _played_kinds(workload, WHOLE in packs)) for name in packs),
            *((work.name, _learned_kinds(work, workload)) for work in works),
            *((work.name, ("tensors",)) for work in sums),
        )
    }
    state = replace(
        state,
        slots={
            name: Slot(item=_ITEM, timeout_s=0.0, done=Done(id="", attempt=0, objects=objects, reply=LearnReply()))
            for name, objects in answers.items()
        },
    )
    unfinished, past = (
        [answers[name][kind] for name in packs if kind in answers[name]]
        for kind in ("unfinished", "trajectory" if lag else "played")
    )
    objects, parts = locations_after_learning(plan, state)
    state = replace(
        state,
        objects=objects,
        parts=parts,
        past=(Past(round=state.round - (lag or 1), rollouts=workload.rollouts, trajectories=(*past,)),) if past else (),
        unfinished=tuple(
            Unfinished(rollouts=pack, episodes=ref) for pack, ref in zip(packs.values(), unfinished, strict=False)
        ),
    )
    part_sizes = _part_sizes(workload, works, WHOLE in packs)
    sizes = part_sizes | {ref.key: 0.0 for ref in (*unfinished, *([] if lag else past))}
    return _Prediction(
        state,
        sizes | _tensor_sizes(workload, works, sums) | _input_sizes(plan, workload),
        {f"{name}/trajectory": len(pack) for name, pack in packs.items()},
        {ref.key: part_sizes[ref.key] for ref in objects if ref.key in part_sizes},
    )


def _played_kinds(workload: RoundWorkload, whole: bool) -> tuple[str, ...]:
    learned = ("policies", "learner", *(("played",) if workload.replays else ()))
    return (*(learned if whole else ("trajectory",)), *(("unfinished",) if workload.unfinished_bytes else ()))


def _learned_kinds(work: Work, workload: RoundWorkload) -> tuple[str, ...]:
    """The kinds of the objects of a task that learns. The object that has the answer is always stored."""
    publishes = work.publish and workload.sums_bytes is None
    policies = ("policies",) if work.trains(workload.stages) else ()
    return ("learner", *policies, *(("tensors",) if publishes else ()))


def _part_sizes(workload: RoundWorkload, works: Sequence[Work], whole: bool) -> dict[str, float]:
    """The bytes of the objects with parts of the learner's state. All policies have one size, and all other parts."""
    parts, groups = _parts(workload), len(workload.members)
    others = max(1, len(parts) // groups - 1)
    written = [(WHOLE, parts)] if whole else [(work.name, sorted({*work.writes(workload.stages)})) for work in works]
    unwritten_parts = {*parts}.difference(*(parts for _, parts in written))
    sizes = defaultdict[str, float](float)
    for name, parts_of in (*written, (BEFORE, sorted(unwritten_parts))):
        for part, _ in parts_of:
            share = workload.policy_bytes if part == "policy" else workload.learner_bytes / others
            sizes[f"{name}/{object_kind(part)}"] += share / groups
    return sizes


def _tensor_sizes(workload: RoundWorkload, works: Sequence[Work], sums: Sequence[Work]) -> dict[str, float]:
    if workload.sums_bytes is not None:
        return {f"{work.name}/tensors": workload.sums_bytes * len(work.groups) / len(workload.members) for work in sums}
    pairs = {f"{work.name}/tensors": len(work.stages) * len(work.groups) for work in works if work.publish}
    return {key: workload.tensor_bytes / sum(pairs.values()) * number for key, number in pairs.items()}


def _input_sizes(plan: Plan, workload: RoundWorkload) -> dict[str, float]:
    """The bytes of the run's inputs and of opponents' policies, without inputs that warm functions have kept."""
    dataset, opponents = plan.inputs.dataset, workload.opponent_reads or 0
    sizes = {f"opponent/{number}": workload.policy_bytes / opponents for number in range(opponents)}
    sizes |= {ref.key: ref.size for ref in plan.inputs.of_learners().refs()}
    if dataset and dataset.size > share_of(plan.config.functions.actor.memory_mb):
        sizes[dataset.key] = 0.0  # each task reads a part
    return sizes


def _tasks_by_gate(
    plan: Plan, gates: Sequence[Gate], prediction: _Prediction, workload: RoundWorkload
) -> dict[str, list[PlannedTask]]:
    """Return the tasks of each gate. Equal micro-batches share one count, and so do equal updates."""
    state = prediction.state
    sizes = [*enumerate(sum(map(len, packs.values())) for packs in rounds.micro_batches(plan, state))]
    counted_by: dict[str, object] = {
        f"{kind}/{number}": (kind, size) for number, size in sizes for kind in ("sample", "grad")
    }
    for wave, works in enumerate(learner_schedule(plan, state)):
        counted_by[f"learn/{wave}"] = tuple((work.stages, work.groups, work.publish, work.omissions) for work in works)
    by_gate, equal = dict[str, list[PlannedTask]](), dict[object, list[PlannedTask]]()
    for gate in gates:
        if (key := counted_by.get(gate.name)) not in equal:
            equal[key] = [_task(node, prediction, workload) for node in gate.nodes()]
        by_gate[gate.name] = equal[key]
    return by_gate


def _task(node: Node, prediction: _Prediction, workload: RoundWorkload) -> PlannedTask:
    sizes, rollouts = prediction.sizes, prediction.rollouts
    request, done = node.request(), prediction.state.slots[node.name].done
    objects, refs = done.objects if done else {}, request.reads()
    learns_from = tuple(rollouts[ref.key] for ref in refs if ref.key in rollouts)
    read_sizes = [sizes[ref.key] for ref in refs if ref.key in sizes]
    task = PlannedTask(
        function="actor" if isinstance(request, SampleTask) else "learner",
        kind=node.item.kind,
        size=node.item.size,
        reads=len(read_sizes),
        read_bytes=sum(learns_from) * workload.rollout_bytes + sum(read_sizes),
        makes=len(objects),
        made_bytes=sum(sizes.get(ref.key, 0.0) for ref in objects.values()),
    )
    if not isinstance(request, LearnTask):
        return task._replace(plays=workload.rollouts if node.name == WHOLE else int(node.item.size))
    stages = 0 if request.partial is not None else len(request.stages)
    return task._replace(
        reply_bytes=report_bytes(workload, stages, request.groups, trains="policies" in objects),
        summary_bytes=sampling_bytes(workload, sum(learns_from)),
        learns_from=learns_from,
    )
