"""Checks that no placement changes a byte of a round's result."""

from dataclasses import replace

from marless.functions import codec
from marless.functions.algorithms.schedule import SCHEDULES, Schedule
from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec, Share
from marless.functions.algorithms.stage import Context, Implementation
from marless.functions.learner import stages
from marless.functions.learner.update import as_stored, split_by_lifetime
from marless.functions.messages.exchange import TaskHeader
from marless.testing.algorithms.tools import RoundResult, Tensors, after, digest, expect, instances, part_of, require


def check_placements(
    algorithm: AlgorithmSpec, code: Implementation, context: Context[AlgorithmConfig], reference: Tensors
) -> None:
    """Run the round under every placement rule. Raises `AssertionError` if the state is not `reference`."""
    packed_result: RoundResult | None = None
    groups = sorted(set(context.team.groups))
    for rule, schedule in SCHEDULES.items():
        with expect(f"placement {rule} fails", Exception):
            outcome = _run_schedule(
                algorithm, code, context, schedule(algorithm.stages, groups, context.config.updates_per_round)
            )
        _require_same(reference, outcome.state, rule)
        packed_result = packed_result or outcome
        require(outcome.metrics == packed_result.metrics, f"placement {rule} reports other metrics than packed")
        require(outcome.tables == packed_result.tables, f"placement {rule} reports other summaries than packed")


def check_whole(
    algorithm: AlgorithmSpec,
    code: Implementation,
    context: Context[AlgorithmConfig],
    incoming: Tensors,
    reference: Tensors,
) -> Tensors:
    """Runs the round in one function that keeps its state between rounds: `incoming` never passed through storage.

    Returns the state that it keeps. Raises `AssertionError` if that is not `reference`.
    """
    share = Share(
        [stage.name for stage in algorithm.stages], context.team.learning, range(context.config.updates_per_round)
    )
    with expect("placement whole fails", Exception):
        outcome = stages.run(algorithm, code, replace(context, tensors=incoming), share, algorithm.summaries)
    policies, learner, _ = split_by_lifetime(outcome.tensors, algorithm.parts)
    outgoing = {**incoming, **as_stored(policies), **as_stored(learner)}
    _require_same(reference, outgoing, "whole")
    return outgoing


def _require_same(reference: Tensors, outcome: Tensors, rule: str) -> None:
    for name in sorted(reference.keys() | outcome.keys()):
        one, other = ({name: state[name]} if name in state else {} for state in (reference, outcome))
        require(digest(one) == digest(other), f"{name} has other bytes in placement {rule} than stage by stage")


def _run_schedule(
    algorithm: AlgorithmSpec, code: Implementation, context: Context[AlgorithmConfig], schedule: Schedule
) -> RoundResult:
    """Run the round as separate functions, each reading from storage only the parts that its stages declare."""
    progress = RoundResult(dict(context.tensors), {}, {})
    stage_tensors: Tensors = {}
    update = 0
    for phase in schedule:
        if phase[0].updates[0] != update:
            update, stage_tensors = phase[0].updates[0], {}
        outcomes = []
        for share in phase:
            reads = {part for name in share.stages for part in algorithm.stage(name).reads}
            inputs = through_storage({**instances(progress.state, reads, share.groups), **stage_tensors})
            trains = any("policy" in algorithm.stage(name).writes for name in share.stages)
            summaries = algorithm.summaries if trains else ()
            outcomes.append(stages.run(algorithm, code, replace(context, tensors=inputs), share, summaries))
        for share, outcome in zip(phase, outcomes, strict=True):
            progress = _with_outcome(algorithm, progress, share, outcome)
            tensors = outcome.tensors.items()
            stage_tensors |= {name: array for name, array in tensors if part_of(name) not in algorithm.parts}
    return progress


def _with_outcome(
    algorithm: AlgorithmSpec, progress: RoundResult, share: Share, outcome: stages.StageResults
) -> RoundResult:
    state, outputs = progress.state, through_storage(outcome.tensors)
    for stage in share.stages:
        for group in share.groups:
            state = after(state, algorithm, stage, group, outputs)
    return RoundResult(state, {**progress.metrics, **outcome.metrics}, {**progress.tables, **outcome.tables})


def through_storage(tensors: Tensors) -> Tensors:
    """The tensors after encoding and decoding."""
    return codec.decode(codec.encode(tensors, TaskHeader(task="check")), "check")
