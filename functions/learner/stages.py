"""Runs any subset of an algorithm's stages for any subset of its groups: placement is somebody else's decision."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.base import AlgorithmSpec, Context, Implementation
from functions.contract import NotFinite
from functions.keys import group_name

Tensors = dict[str, NDArray[Any]]


def run(
    spec: AlgorithmSpec, code: Implementation, context: Context, stages: Sequence[str], groups: Sequence[int]
) -> tuple[Tensors, dict[str, float]]:
    """New tensors and figures (`<stage>/<figure>/<group>`) of `stages`, in the graph's order, for `groups`.

    Each stage sees the context's tensors overlaid with what earlier stages of this call gave. Raises `NotFinite`.
    """
    made: Tensors = {}
    figures: dict[str, float] = {}
    for stage in spec.stages:
        if stage.name not in stages:
            continue
        for group in groups:
            seen = replace(context, tensors={**context.tensors, **made})
            result = code.STAGES[stage.name](seen, group)
            require_finite(result.tensors, f"stage {stage.name}, group {group}")
            made |= result.tensors
            for name, value in result.figures.items():
                figures[f"{stage.name}/{name}/{group_name(group)}"] = value
    return made, figures


def require_finite(tensors: Tensors, where: str) -> None:
    """Raises `NotFinite` naming the first tensor that holds NaN or infinity."""
    for name in sorted(tensors):
        if tensors[name].dtype.kind == "f" and not np.isfinite(tensors[name]).all():
            raise NotFinite(f"{where}: {name} holds NaN or infinity")
