"""Episodes as files of other programs: the arrays of an export by name, in npz or Parquet."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from functions.encoding import to_json_file
from marless.exports.episode_recording import Arrays, Episode
from marless.extras import require
from marless.runs.inputs.datasets import DOCUMENT, EPISODES

_Files = dict[str, bytes]


@dataclass(frozen=True)
class DatasetFormat:
    """A format, and the extra that it needs."""

    write: Callable[[Sequence[Episode]], _Files]
    extra: str = ""


def require_format(format_: str) -> None:
    """Raises `UserError` when packages of the format are missing."""
    if FORMATS[format_].extra:
        require(FORMATS[format_].extra, f"--to {format_}")


def dataset_files(episodes: Sequence[Episode], format_: str, about: dict[str, Any]) -> _Files:
    """The files by name; `about` is written to DOCUMENT, with what the arrays are."""
    arrays = {name: {"dtype": str(array.dtype), "shape": array.shape[1:]} for name, array in episodes[0].steps.items()}
    steps = sum(episode.length for episode in episodes)
    document = {"format": format_, **about, "episodes": len(episodes), "steps": steps, "arrays": arrays}
    body = to_json_file(document)
    return {**FORMATS[format_].write(episodes), DOCUMENT: body}


def _npz(episodes: Sequence[Episode]) -> _Files:
    """All steps one after the other ``[steps, ...]``, what was seen after each episode ``[episodes, ...]``, and where
    episodes begin, followed by the number of steps ``[episodes + 1]``."""
    arrays = _concatenate(episodes)
    arrays |= {f"final/{name}": np.stack([one.final[name] for one in episodes]) for name in episodes[0].final}
    arrays["episode_starts"] = np.cumsum([0, *(one.length for one in episodes)])
    body = io.BytesIO()
    np.savez_compressed(body, **arrays)  # type: ignore[arg-type]
    return {EPISODES: body.getvalue()}


def _parquet(episodes: Sequence[Episode]) -> _Files:
    """A row for every step, and in a second file a row for what was seen after every episode; arrays of more axes are
    flat lists."""
    lengths = [one.length for one in episodes]
    places = {
        "episode": np.repeat(np.arange(len(episodes)), lengths),
        "step": np.concatenate([np.arange(length) for length in lengths]),
    }
    ends = {"episode": np.arange(len(episodes)), "length": np.array(lengths)}
    final = {name: np.stack([one.final[name] for one in episodes]) for name in episodes[0].final}
    return {"steps.parquet": _table(places | _concatenate(episodes)), "final.parquet": _table(ends | final)}


def _table(columns: Arrays) -> bytes:
    import pyarrow
    from pyarrow import parquet

    arrays = {name: _column(pyarrow, array) for name, array in columns.items()}
    body = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(arrays), body)
    return bytes(body.getvalue())


def _column(pyarrow: Any, array: Any) -> Any:
    values = pyarrow.array(array.reshape(-1))
    return values if array.ndim == 1 else pyarrow.FixedSizeListArray.from_arrays(values, int(np.prod(array.shape[1:])))


def _concatenate(episodes: Sequence[Episode]) -> Arrays:
    return {name: np.concatenate([one.steps[name] for one in episodes]) for name in episodes[0].steps}


FORMATS = {"npz": DatasetFormat(_npz), "parquet": DatasetFormat(_parquet, "datasets")}
