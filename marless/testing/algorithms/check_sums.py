"""Checks that no byte depends on the division of sums over a round."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec, Share
from marless.functions.algorithms.stage import Context, Implementation
from marless.functions.data import batch
from marless.functions.learner.partial_sums import MicroBatch, folding, make_sums, micro_batches
from marless.testing.algorithms.check_schedule import check_placements, through_storage
from marless.testing.algorithms.check_stages import check_stages
from marless.testing.algorithms.tools import Tensors, digest, expect, instances, require


def check_sums(
    algorithm: AlgorithmSpec,
    code: Implementation,
    context: Context[AlgorithmConfig],
    trajectories: Mapping[str, NDArray[Any]],
    rollouts: range,
) -> None:
    """Sum over every rollout, for all groups at once and for each alone, and learn from the sums under every placement
    rule.

    Raises `AssertionError` naming the violated rule. Summaries are left out, because they may need a whole round.
    """
    algorithm = replace(algorithm, summaries=())
    groups = sorted(set(context.team.groups))
    together, apart = Tensors(), Tensors()
    for part in micro_batches(rollouts, 1):
        with expect("PARTIAL fails", Exception):
            data = batch.join(context.spec, trajectories, part.rollouts)
            together |= _sums(algorithm, code, replace(context, batch=data), part, groups)
            for group in groups:
                inputs = through_storage(instances(context.tensors, algorithm.sum_parts, [group]))
                apart |= _sums(algorithm, code, replace(context, batch=data, tensors=inputs), part, [group])
    require(
        digest(together) == digest(apart),
        "PARTIAL gives other bytes for a group by itself, from its sum_parts alone, than for all groups",
    )
    share = Share([stage.name for stage in algorithm.stages], groups)
    with_sums = replace(context, tensors={**context.tensors, **through_storage(together)})
    folds = folding(algorithm, code, with_sums, share, len(rollouts))
    check_placements(algorithm, folds, context, check_stages(algorithm, folds, context))


def _sums(
    algorithm: AlgorithmSpec,
    code: Implementation,
    context: Context[AlgorithmConfig],
    part: MicroBatch,
    groups: list[int],
) -> Tensors:
    return make_sums(algorithm, code, replace(context, part=part.place), part.number, groups)
