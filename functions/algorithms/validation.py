"""Validation of an algorithm's specification, without importing its stages."""

import re
from collections.abc import Iterator
from typing import Any, get_args

from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec, StageSpec
from marless.functions.messages.learner import SummaryName
from marless.functions.plug_in_registry import is_reference

# Names are part of object keys, tensor names and run names.
_NAME = re.compile(r"[A-Za-z0-9_-]+")


def violation(spec: object) -> str:
    """The first violation of an `AlgorithmSpec`'s rules, or '' for none."""
    if not isinstance(spec, AlgorithmSpec):
        return f"it is of type {type(spec).__name__}, not AlgorithmSpec"
    return next(_violations(spec), "")


def missing_stages(spec: AlgorithmSpec, code: Any) -> str:
    """The first attribute or stage that the implementing module lacks, or '' if it is complete."""
    if missing := [name for name in ("STAGES", "initialise") if not hasattr(code, name)]:
        return f"it has no {missing[0]}"
    stages = [stage.name for stage in spec.stages]
    if sorted(code.STAGES) != sorted(stages):
        return f"STAGES has {', '.join(code.STAGES)}, and the specification {', '.join(stages)}"
    if spec.sum_parts and (getattr(code, "PARTIAL", None) is None or {*getattr(code, "FOLDS", ())} != {*stages}):
        return "the specification lists sum_parts, and it has no PARTIAL, or not one of FOLDS for every stage"
    missing = [name for name in spec.summaries if name not in getattr(code, "SUMMARIES", ())]
    return f"SUMMARIES has no {missing[0]}, which the specification lists" if missing else ""


def runs_before(spec: AlgorithmSpec, first: StageSpec, second: StageSpec) -> bool:
    """Return True if `second` waits for `first`, directly or through others."""
    return any(name == first.name or runs_before(spec, first, spec.stage(name)) for name in second.after)


def _violations(spec: AlgorithmSpec) -> Iterator[str]:
    if not all(isinstance(stage, StageSpec) for stage in spec.stages):
        yield "its stages are not all of type StageSpec"
    names = [*(stage.name for stage in spec.stages), *spec.parts, *([] if is_reference(spec.name) else [spec.name])]
    yield from (
        f"the name {name!r} is not made of letters, digits, _ and -"
        for name in names
        if not (isinstance(name, str) and _NAME.fullmatch(name))
    )
    if not isinstance(spec.implementation, str | tuple):
        yield f"its implementation is {spec.implementation!r}, not the name of a module"
    if spec.part_bytes is not None and not callable(spec.part_bytes):
        yield f"its part_bytes is of type {type(spec.part_bytes).__name__}, not a function"
    yield from _of_config(spec)
    yield from _of_parts(spec)
    yield from _of_stages(spec)
    yield from _races(spec)


def _of_config(spec: AlgorithmSpec) -> Iterator[str]:
    if not (isinstance(spec.config, type) and issubclass(spec.config, AlgorithmConfig)):
        yield f"its configuration {spec.config!r} is no subclass of AlgorithmConfig"
        return
    how = spec.config.__struct_config__
    if (how.tag_field, how.tag) != ("name", spec.name):
        yield f'its configuration {spec.config.__name__} needs tag_field="name", tag="{spec.name}"'
    if not (how.frozen and how.forbid_unknown_fields):
        yield f"its configuration {spec.config.__name__} can be changed, or takes fields that it does not have"


def _of_parts(spec: AlgorithmSpec) -> Iterator[str]:
    if "policy" not in spec.parts:
        yield "its parts have no 'policy', which actors read"
    yield from (f"it has two parts {part!r}" for part in spec.parts if spec.parts.count(part) > 1)
    yield from (f"the resizable part {part!r} is none of its parts" for part in {*spec.resizable_parts} - {*spec.parts})
    yield from (f"{part!r} of its sum_parts is none of its parts" for part in {*spec.sum_parts} - {*spec.parts})
    for stage in spec.stages:
        unknown = [part for part in (*stage.reads, *stage.writes) if part not in spec.parts]
        yield from (f"stage {stage.name!r} reads or writes {part!r}, which is none of its parts" for part in unknown)
    if not any("policy" in stage.writes for stage in spec.stages):
        yield "none of its stages writes 'policy', so nothing would ever be learned"
    unknown = [name for name in spec.summaries if name not in get_args(SummaryName)]
    yield from (f"there is no summary {name!r}; there are {', '.join(get_args(SummaryName))}" for name in unknown)


def _of_stages(spec: AlgorithmSpec) -> Iterator[str]:
    earlier_names: list[str] = []
    for stage in spec.stages:
        if stage.name in earlier_names:
            yield f"it has two stages {stage.name!r}"
        if stage.scope not in ("team", "group"):
            yield f"the scope of stage {stage.name!r} is {stage.scope!r}, neither 'team' nor 'group'"
        if stage.in_turn and not (stage.scope == "team" and stage.couples):
            yield f"stage {stage.name!r} is in_turn, and no team stage that couples"
        late = [name for name in stage.after if name not in earlier_names]
        yield from (f"stage {stage.name!r} comes after {name!r}, which is no stage before it" for name in late)
        earlier_names.append(stage.name)


def _races(spec: AlgorithmSpec) -> Iterator[str]:
    """Stages that may run in parallel although one writes parts that the other reads or writes."""
    for index, second in enumerate(spec.stages):
        for first in spec.stages[:index]:
            common = {*first.writes} & {*second.reads, *second.writes} | {*first.reads} & {*second.writes}
            if common and not runs_before(spec, first, second):
                yield f"stages {first.name!r} and {second.name!r} share {min(common)!r}, and neither is after the other"
