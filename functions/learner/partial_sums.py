"""Micro-batches: sums over parts of a round, which are made as soon as the rollouts of a part are there.

The stages then learn from the sums of all parts in their order, and from nothing else of the round. A function that has
the whole round makes the same sums from the same arrays, part by part. So the bytes do not depend on the maker or the
time of the sums.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions import codec
from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec, Share
from marless.functions.algorithms.stage import Context, Implementation, RoundPart, Stage, within
from marless.functions.errors import BadRequest
from marless.functions.isolation.process_guard import restore_arithmetic
from marless.functions.keys import group_name
from marless.functions.learner.stages import require_finite
from marless.functions.serving import Tensors

# The first part of the sums' names, and the first part of the names of their weights' hashes.
SUMS, OF = "sums", "of/"


class MicroBatch(NamedTuple):
    """Some of a round's rollouts: the `number` of the micro-batch, its rollouts, and where in the round they are."""

    number: int
    rollouts: tuple[int, ...]
    place: RoundPart


def micro_batches(rollouts: Sequence[int], size: int) -> list[MicroBatch]:
    """The rollouts of a round in micro-batches of `size` and a last one of at most as many. None for size 0."""
    if not size:
        return []
    return [
        MicroBatch(number, tuple(rollouts[first : first + size]), RoundPart(first, len(rollouts)))
        for number, first in enumerate(range(0, len(rollouts), size))
    ]


def make_sums(
    spec: AlgorithmSpec, code: Implementation, context: Context[AlgorithmConfig], number: int, groups: Sequence[int]
) -> Tensors:
    """Return the sums of micro-batch `number`, the context's, by name and for each of the groups. Raises
    `NotFinite`."""
    assert code.PARTIAL is not None  # see `validation.missing_stages`
    tensors: Tensors = {}
    for group in groups:
        sums = code.PARTIAL(context, group)
        restore_arithmetic(f"{spec.name}, sums")
        require_finite(sums, f"sums of micro-batch {number}, group {group}")
        hashes = {f"{OF}{name}": _digest(context, name, group) for name in spec.sum_parts}
        tensors |= {f"{_prefix(group, number)}/{name}": array for name, array in {**sums, **hashes}.items()}
    return tensors


def folding(
    spec: AlgorithmSpec, code: Implementation, context: Context[AlgorithmConfig], share: Share, count: int
) -> Implementation:
    """Return an implementation that learns from the sums of `count` micro-batches among the context's tensors.

    Raises `BadRequest` if some sums are missing or were made with other weights than the context's.
    """
    sums = {group: [_sums_of(context, group, number) for number in range(count)] for group in share.groups}
    parts = {part for name in share.stages for part in spec.stage(name).reads} & {*spec.sum_parts}
    for group, part in ((group, part) for group in share.groups for part in sorted(parts)):
        _require_same_weights(context, group, part, sums[group])

    def stage(name: str) -> Stage:
        return lambda of_stage, group: code.FOLDS[name](of_stage, group, sums[group])

    return code._replace(STAGES={name: stage(name) for name in code.FOLDS})


def _sums_of(context: Context[AlgorithmConfig], group: int, number: int) -> dict[str, NDArray[Any]]:
    if not (sums := within(context.tensors, _prefix(group, number))):
        raise BadRequest(f"the task has no sums of micro-batch {number} for group {group_name(group)}")
    return sums


def _require_same_weights(
    context: Context[AlgorithmConfig], group: int, part: str, sums: Sequence[Mapping[str, NDArray[Any]]]
) -> None:
    digest = _digest(context, part, group)
    for number, of_part in enumerate(sums):
        if not np.array_equal(of_part[f"{OF}{part}"], digest):
            raise BadRequest(
                f"the sums of micro-batch {number} were made with another {part} of group {group_name(group)} than the"
                " one that learns from them"
            )


def _digest(context: Context[AlgorithmConfig], part: str, group: int) -> NDArray[np.uint8]:
    name = f"{part}/{group_name(group)}"
    tensors = {key: array for key, array in context.tensors.items() if f"{key}/".startswith(f"{name}/")}
    return np.frombuffer(bytes.fromhex(codec.tensors_sha256(tensors)), np.uint8)


def _prefix(group: int, number: int) -> str:
    return f"{SUMS}/{group_name(group)}/{number:05d}"
