"""Runs any subset of an algorithm's stages for any subset of its groups, as placement requires."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec, Share, StageSpec
from marless.functions.algorithms.stage import Context, Implementation, SummaryResult
from marless.functions.codec import pack_table
from marless.functions.errors import NotFinite
from marless.functions.isolation.process_guard import restore_arithmetic
from marless.functions.keys import agent_name, group_name
from marless.functions.messages.learner import SummaryName
from marless.functions.messages.message import Table
from marless.functions.randomness import generator

Tensors = dict[str, NDArray[Any]]


class StageResults(NamedTuple):
    """New tensors, metrics (`<stage>/<metric>/<group>`) and tables (`<summary>/<agent>`)."""

    tensors: Tensors
    metrics: dict[str, float]
    tables: dict[str, Table]


def run(
    spec: AlgorithmSpec,
    code: Implementation,
    context: Context[AlgorithmConfig],
    share: Share,
    summaries: Sequence[SummaryName] = (),
) -> StageResults:
    """Runs the stages of `share` in the graph's order. `summaries` follow the stage that trains the policies.

    Each stage sees the context's tensors overlaid with the results of earlier stages of this call. Metrics and
    summaries come from the round's last update. Raises `NotFinite`.
    """
    outcome = StageResults({}, {}, {})
    tensors = context.tensors
    stages = [stage for stage in spec.stages if stage.name in share.stages]
    for update in share.updates:
        memo: dict[object, Any] = {}
        pairs = ((stage_spec, group) for stage_spec in stages for group in turns(stage_spec, context, share, update))
        calls = [(stage_spec, group) for stage_spec, group in pairs if (stage_spec.name, group) not in share.omissions]
        for stage, group in calls:
            stage_context = replace(context, tensors={**tensors, **outcome.tensors}, update=update, memo=memo)
            try:
                result = code.STAGES[stage.name](stage_context, group)
            except NotFinite as error:
                raise NotFinite(f"stage {stage.name}, group {group}: {error}") from error
            restore_arithmetic(f"{spec.name}, {stage.name}")
            require_finite(result.tensors, f"stage {stage.name}, group {group}")
            outcome.tensors.update(result.tensors)
            if update == context.config.updates_per_round - 1:
                _record_metrics(stage.name, group, result.metrics, outcome)
                for name in summaries if "policy" in stage.writes else ():
                    _summarise(name, group, code.SUMMARIES[name](stage_context, result.tensors, group), outcome)
    return outcome


def turns(stage: StageSpec, context: Context[AlgorithmConfig], share: Share, update: int) -> list[int]:
    """Return the groups in their order of training by the stage. It is the order of `share`, or drawn at the address
    (seed, round, "turns", stage, update)."""
    if not stage.in_turn:
        return list(share.groups)
    rng = generator(context.seed, context.round, "turns", stage.name, update)
    return [share.groups[place] for place in rng.permutation(len(share.groups))]


def _record_metrics(origin: str, group: int, metrics: Mapping[str, float], outcome: StageResults) -> None:
    outcome.metrics.update({f"{origin}/{name}/{group_name(group)}": value for name, value in metrics.items()})


def _summarise(summary: SummaryName, group: int, result: SummaryResult, outcome: StageResults) -> None:
    """Adds a summary. Raises `NotFinite` for NaN or infinity in it, as the controller's decisions depend on it."""
    tables = {agent_name(agent): array for agent, array in result.tables.items()}
    metrics = {name: np.asarray(value) for name, value in result.metrics.items()}
    require_finite({**tables, **metrics, **result.tensors}, f"summary {summary}, group {group}")
    _record_metrics(summary, group, result.metrics, outcome)
    outcome.tensors.update(result.tensors)
    outcome.tables.update({f"{summary}/{agent}": pack_table(array) for agent, array in tables.items()})


def require_finite(tensors: Tensors, place: str) -> None:
    """Raises `NotFinite` naming the first tensor that holds NaN or infinity."""
    for name in sorted(tensors):
        if tensors[name].dtype.kind == "f" and not np.isfinite(tensors[name]).all():
            raise NotFinite(f"{place}: {name} holds NaN or infinity")
