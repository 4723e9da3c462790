"""Checks that every stage is pure and that its specification declares its inputs and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec, Share, StageSpec
from marless.functions.algorithms.stage import Context, Implementation, StageResult
from marless.functions.keys import group_name
from marless.functions.learner.stages import turns
from marless.testing.algorithms.tools import (
    Tensors,
    after,
    belongs,
    digest,
    expect,
    first,
    hint,
    instances,
    part_of,
    require,
    stage_inputs,
)


@dataclass
class _Round:
    """The progress of a round: the state, and the other tensors of this update's stages, by stage."""

    algorithm: AlgorithmSpec
    code: Implementation
    context: Context[AlgorithmConfig]
    state: Tensors
    stage_tensors: dict[str, Tensors] = field(default_factory=dict)
    everything: Tensors = field(default_factory=dict)


def check_stages(algorithm: AlgorithmSpec, code: Implementation, context: Context[AlgorithmConfig]) -> Tensors:
    """Return the state after the round, stage by stage and group by group. Raises `AssertionError`."""
    now = _Round(algorithm, code, context, dict(context.tensors))
    for update in range(context.config.updates_per_round):
        now.stage_tensors = {stage.name: {} for stage in algorithm.stages}
        for stage in algorithm.stages:
            share = Share([stage.name], sorted(set(context.team.groups)))
            for group in turns(stage, context, share, update):
                with hint(f"stage {stage.name!r}, group {group}, update {update}"):
                    _check_stage(now, stage, group, update)
    return now.state


def _check_stage(now: _Round, stage: StageSpec, group: int, update: int) -> None:
    declared_inputs = _declared_inputs(now, stage, group)
    whole = replace(now.context, tensors={**now.everything, **now.state}, update=update)
    result = _call(now, stage, group, whole)
    declaration = f"reads {_names_text(stage.reads)}, after {_names_text(stage.after)}, couples={stage.couples}"
    with expect(f"it needs more than what it declares ({declaration})", Exception):
        alone = _call(now, stage, group, replace(whole, tensors=declared_inputs))
    if not _same(result, alone):
        again = _call(now, stage, group, whole)
        require(_same(result, again), "called again with the same inputs, it gives other bytes")
        require(False, f"what it gives depends on more than what it declares ({declaration})")
    _check_result(now, stage, group, result)
    now.state = after(now.state, now.algorithm, stage.name, group, result.tensors)
    now.stage_tensors[stage.name] |= {
        name: array for name, array in result.tensors.items() if part_of(name) not in now.algorithm.parts
    }
    now.everything |= result.tensors


def _declared_inputs(now: _Round, stage: StageSpec, group: int) -> Tensors:
    """The parts and earlier stages' tensors that the stage may read, of its group or, if it couples, of all."""
    groups = sorted(set(now.context.team.groups))
    whole_team = stage.couples and stage.scope == "team"
    parts = instances(now.state, stage.reads, groups if whole_team else [group])
    for before in (*stage.after, *([stage.name] if stage.in_turn else [])):
        tensors = now.stage_tensors[before]
        parts |= {name: tensors[name] for name in tensors if belongs(name, groups if stage.couples else [group])}
    return parts


def _call(now: _Round, stage: StageSpec, group: int, context: Context[AlgorithmConfig]) -> StageResult:
    arrays = stage_inputs(context)
    before = {name: array.tobytes() for name, array in arrays.items()}
    names = sorted(context.tensors)
    result = now.code.STAGES[stage.name](context, group)
    changed_inputs = [name for name, array in arrays.items() if array.tobytes() != before[name]]
    require(not changed_inputs, f"it changes {first(changed_inputs)}, which it was given")
    require(sorted(context.tensors) == names, "it adds or removes tensors of the context")
    _check_kind(result)
    return result


def _check_kind(result: object) -> None:
    require(isinstance(result, StageResult), f"it returns a {type(result).__name__}, not a StageResult")
    assert isinstance(result, StageResult)
    for name, array in result.tensors.items():
        sound = isinstance(array, np.ndarray) and array.dtype.kind in "fiub"
        require(sound, f"{name} is no array of numbers: {type(array).__name__}")
        finite = array.dtype.kind != "f" or bool(np.isfinite(array).all())
        require(finite, f"{name} holds NaN or infinity")
    for name, value in result.metrics.items():
        require(isinstance(value, float | int), f"the metric {name} is a {type(value).__name__}, not a float")
        require(bool(np.isfinite(value)), f"the metric {name} is NaN or infinite")


def _check_result(now: _Round, stage: StageSpec, group: int, result: StageResult) -> None:
    groups = sorted(set(now.context.team.groups)) if stage.couples and stage.scope == "team" else [group]
    for name in result.tensors:
        part = part_of(name)
        require(part not in now.algorithm.parts or part in stage.writes, f"it writes {name}, which it does not declare")
        require(belongs(name, groups), f"it gives {name}, which is not named <what>/{group_name(group)}")
        require(part not in stage.writes or belongs(name, [group]), f"it writes {name}, which is another group's")
        giver = first(other for other, tensors in now.stage_tensors.items() if name in tensors)
        require(not giver, f"it gives {name}, which stage {giver!r} gave already")
    # A coupling team stage may return nothing for a group.
    if result.tensors or not (stage.couples and stage.scope == "team"):
        _check_written(now, stage, group, result.tensors)


def _check_written(now: _Round, stage: StageSpec, group: int, outputs: Mapping[str, NDArray[Any]]) -> None:
    for name, old in instances(now.state, stage.writes, [group]).items():
        require(
            name in outputs, f"it does not give {name}, which would be lost: it declares to write {part_of(name)!r}"
        )
        new, was = outputs[name], f"{old.dtype} {old.shape}"
        free = int(part_of(name) in now.algorithm.resizable_parts)
        alike = (new.dtype, new.ndim, new.shape[free:]) == (old.dtype, old.ndim, old.shape[free:])
        require(alike, f"{name} was {was} and is {new.dtype} {new.shape}")
    names = instances(now.state, stage.writes, [group]).keys()
    extra = sorted(instances(outputs, stage.writes, [group]).keys() - names)
    require(not extra, f"it writes {first(extra)}, which the state does not have")


def _same(one: StageResult, other: StageResult) -> bool:
    return digest(one.tensors) == digest(other.tensors) and one.metrics == other.metrics


def _names_text(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
