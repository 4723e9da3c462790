"""Rows as a data frame of pandas, or of polars where pandas is not installed."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from marless import extras
from marless.coordinator.config.nested_tables import flatten
from marless.coordinator.errors import UserError

if TYPE_CHECKING:
    from pandas import DataFrame


def data_frame(rows: Sequence[Mapping[str, Any]], call: str) -> "DataFrame":
    """Return a frame with a column for each value, by dotted key. `call` is in the `UserError` without a package."""
    columns = [flatten(row) for row in rows]
    for package in ("pandas", "polars"):
        if extras.is_importable(package):
            return cast("DataFrame", import_module(package).DataFrame(columns))
    raise UserError(f"{call} needs pandas, which is not installed: {extras.install('notebook')}")
