"""Functions that the checks of algorithms share."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marless.functions import codec
from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec
from marless.functions.algorithms.stage import Context
from marless.functions.keys import group_name
from marless.functions.messages.message import Table

Tensors = dict[str, NDArray[Any]]


class RoundResult(NamedTuple):
    """The result of a round: the next round's first state, and metrics and tables by name."""

    state: Tensors
    metrics: dict[str, float]
    tables: dict[str, Table]


def require(holds: bool, message: str) -> None:
    """Raises `AssertionError`."""
    if not holds:
        raise AssertionError(message)


def first(names: Iterable[str]) -> str:
    """Return the first of the names, or ''."""
    return next(iter(names), "")


@contextmanager
def hint(where: str) -> Iterator[None]:
    """Prefixes the message of an `AssertionError` with `where`."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error


@contextmanager
def expect(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Raises `AssertionError` in place of errors of these types."""
    try:
        yield
    except errors as error:
        line = " ".join(str(error).split())
        raise AssertionError(f"{what}: {type(error).__name__}: {line}") from error


def digest(tensors: Mapping[str, NDArray[Any]]) -> str:
    """A hash over names, types, shapes and bytes."""
    return codec.tensors_sha256(tensors)


def stage_inputs(context: Context[AlgorithmConfig]) -> Tensors:
    """All input arrays of a stage, by name."""
    inputs: Tensors = dict(context.tensors)
    for field in fields(context.batch):
        value = getattr(context.batch, field.name)
        arrays = value if isinstance(value, tuple) else (value,)
        inputs |= {f"batch.{field.name}[{i}]": a for i, a in enumerate(arrays) if isinstance(a, np.ndarray)}
    return inputs


def part_of(name: str) -> str:
    """The first component of a tensor's name, such as its part."""
    return name.partition("/")[0]


def belongs(name: str, groups: Iterable[int]) -> bool:
    """Return whether a tensor has the name of one of the groups, such as ``policy/g00/w0``."""
    return name.split("/")[1:2] in [[group_name(group)] for group in groups]


def instances(tensors: Mapping[str, NDArray[Any]], parts: Iterable[str], groups: Iterable[int]) -> Tensors:
    """The tensors of these parts and groups."""
    names, groups = {*parts}, list(groups)
    return {name: array for name, array in tensors.items() if part_of(name) in names and belongs(name, groups)}


def after(state: Tensors, spec: AlgorithmSpec, stage: str, group: int, outputs: Tensors) -> Tensors:
    """Return the state after a stage wrote its parts for a group. Missing tensors of these parts are gone."""
    parts = spec.stage(stage).writes
    replaced_tensors = instances(state, parts, [group])
    others = {name: array for name, array in state.items() if name not in replaced_tensors}
    return {**others, **instances(outputs, parts, [group])}
