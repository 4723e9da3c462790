"""Runs any subset of an algorithm's stages for any subset of its groups: placement is somebody else's decision."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from functions.algorithms.base import AlgorithmSpec, Context, Implementation, SummaryResult
from functions.contract import NotFinite, SummaryName, Table
from functions.keys import agent_name, group_name
from functions.tables import pack

Tensors = dict[str, NDArray[Any]]


class Outcome(NamedTuple):
    """New tensors, figures (`<stage>/<figure>/<group>`) and tables (`<summary>/<agent>`)."""

    tensors: Tensors
    figures: dict[str, float]
    tables: dict[str, Table]


def run(
    spec: AlgorithmSpec,
    code: Implementation,
    context: Context,
    stages: Sequence[str],
    groups: Sequence[int],
    summaries: Sequence[SummaryName] = (),
) -> Outcome:
    """What `stages` give for `groups`, in the graph's order; `summaries` belong to the stage that trains the policies.

    Each stage sees the context's tensors overlaid with what earlier stages of this call gave. Raises `NotFinite`.
    """
    made: Tensors = {}
    figures: dict[str, float] = {}
    tables: dict[str, Table] = {}
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
            for summary in summaries if "policy" in stage.writes else ():
                told = _finite(code.SUMMARIES[summary](seen, result.tensors, group), summary, group)
                figures |= {f"{summary}/{name}/{group_name(group)}": value for name, value in told.figures.items()}
                tables |= {f"{summary}/{agent_name(agent)}": pack(array) for agent, array in told.tables.items()}
    return Outcome(made, figures, tables)


def _finite(told: SummaryResult, summary: SummaryName, group: int) -> SummaryResult:
    """What was told, unless a number of it is NaN or infinite: decisions depend on it."""
    named = {agent_name(agent): array for agent, array in told.tables.items()}
    figures = {name: np.asarray(value) for name, value in told.figures.items()}
    require_finite({**named, **figures}, f"summary {summary}, group {group}")
    return told


def require_finite(tensors: Tensors, where: str) -> None:
    """Raises `NotFinite` naming the first tensor that holds NaN or infinity."""
    for name in sorted(tensors):
        if tensors[name].dtype.kind == "f" and not np.isfinite(tensors[name]).all():
            raise NotFinite(f"{where}: {name} holds NaN or infinity")
