"""Episodes as files of other programs: the arrays of an export by name, in npz or Parquet.

Episodes of training also say their origin. In Parquet every agent has its own table.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marless.exports.agent_tables import agent_table, by_step, numbers, places
from marless.exports.destination import file_names
from marless.exports.episode_recording import Arrays, Episode
from marless.exports.sampled_episodes import SampledEpisode
from marless.extras import require
from marless.functions.encoding import to_json_file
from marless.runs.inputs.datasets import DOCUMENT, EPISODES

_Files = dict[str, bytes]

# The table of the observations after every episode.
_FINAL = "final"


@dataclass(frozen=True)
class DatasetFormat:
    """A format: how it holds episodes, and episodes of training, and the extra that it needs."""

    write: Callable[[Sequence[Episode]], _Files]
    write_sampled: Callable[[Sequence[SampledEpisode]], _Files]
    extra: str = ""


def require_format(format_: str) -> None:
    """Raises `UserError` when packages of the format are missing."""
    if FORMATS[format_].extra:
        require(FORMATS[format_].extra, f"--to {format_}")


def dataset_files(episodes: Sequence[Episode], format_: str, about: dict[str, Any]) -> _Files:
    """The files by name. `about` is written to DOCUMENT, with a description of the arrays."""
    return {**FORMATS[format_].write(episodes), DOCUMENT: _document(episodes, format_, about)}


def sampled_files(episodes: Sequence[SampledEpisode], format_: str, about: dict[str, Any]) -> _Files:
    """As `dataset_files`, of episodes of training."""
    return {**FORMATS[format_].write_sampled(episodes), DOCUMENT: _document(episodes, format_, about)}


def _document(episodes: Sequence[Episode], format_: str, about: dict[str, Any]) -> bytes:
    arrays = {name: {"dtype": str(array.dtype), "shape": array.shape[1:]} for name, array in episodes[0].steps.items()}
    steps = sum(episode.length for episode in episodes)
    return to_json_file({"format": format_, **about, "episodes": len(episodes), "steps": steps, "arrays": arrays})


def _npz(episodes: Sequence[Episode]) -> _Files:
    """All steps one after the other ``[steps, ...]``, the observations after each episode ``[episodes, ...]``, and
    where episodes begin, followed by the number of steps ``[episodes + 1]``."""
    return {EPISODES: _packed(_by_episode(episodes))}


def _npz_sampled(episodes: Sequence[SampledEpisode]) -> _Files:
    """The arrays of `_npz`, and the origin of every step. The document has the hash of every version."""
    versions = {
        f"{agent}/version": by_step(episodes, [one.versions[agent][0] for one in episodes])
        for agent in episodes[0].versions
    }
    return {EPISODES: _packed(_by_episode(episodes) | places(episodes) | versions)}


def _by_episode(episodes: Sequence[Episode]) -> Arrays:
    arrays = _concatenate(episodes)
    arrays |= {f"final/{name}": np.stack([one.final[name] for one in episodes]) for name in episodes[0].final}
    return arrays | {"episode_starts": np.cumsum([0, *(one.length for one in episodes)])}


def _packed(arrays: Arrays) -> bytes:
    body = io.BytesIO()
    np.savez_compressed(body, **arrays)  # type: ignore[arg-type]
    return body.getvalue()


def _parquet(episodes: Sequence[Episode]) -> _Files:
    """A row for every step, and in a second file a row for the observations after every episode. Arrays of more axes
    are flat lists."""
    return {
        "steps.parquet": _table(numbers(episodes) | _concatenate(episodes)),
        f"{_FINAL}.parquet": _final_table(episodes),
    }


def _parquet_sampled(episodes: Sequence[SampledEpisode]) -> _Files:
    """A table for every agent, with a row for every step, and `_parquet`'s `final.parquet`."""
    agents = list(episodes[0].versions)
    names = file_names(agents, "parquet", others=(_FINAL,))
    tables = {name: _table(agent_table(episodes, agent)) for name, agent in zip(names, agents, strict=True)}
    return {**tables, f"{_FINAL}.parquet": _final_table(episodes)}


def _final_table(episodes: Sequence[Episode]) -> bytes:
    ends = {"episode": np.arange(len(episodes)), "length": np.array([one.length for one in episodes])}
    return _table(ends | {name: np.stack([one.final[name] for one in episodes]) for name in episodes[0].final})


def _table(columns: Arrays) -> bytes:
    import pyarrow
    from pyarrow import parquet

    arrays = {name: _column(pyarrow, array) for name, array in columns.items()}
    body = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(arrays), body)
    return bytes(body.getvalue())


def _column(pyarrow: Any, array: Any) -> Any:
    values = pyarrow.array(array.reshape(-1))
    if array.dtype.kind == "U":  # names, and hashes of a few versions
        return values.dictionary_encode()
    return values if array.ndim == 1 else pyarrow.FixedSizeListArray.from_arrays(values, int(np.prod(array.shape[1:])))


def _concatenate(episodes: Sequence[Episode]) -> Arrays:
    return {name: np.concatenate([one.steps[name] for one in episodes]) for name in episodes[0].steps}


FORMATS = {"npz": DatasetFormat(_npz, _npz_sampled), "parquet": DatasetFormat(_parquet, _parquet_sampled, "datasets")}
