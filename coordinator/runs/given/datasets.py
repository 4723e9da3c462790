"""A dataset of `marless export`, or of another program in its format, stored as what a new run learns from."""

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from coordinator.config.schema import RunConfig
from coordinator.drive.ports import Storage
from coordinator.errors import UserError, one_line
from coordinator.file_reading import UnreadableFile, read_file
from coordinator.reports.policy import same_task
from functions import codec, keys
from functions.contract import Ref, TaskHeader
from functions.data.dataset import RETURN
from functions.encoding import Undecodable, from_json
from functions.environments import language
from functions.environments.base import AgentClass, EnvSpec, EnvTask
from functions.environments.spaces.actions import ActionCodec
from functions.environments.spaces.observations import SpaceError

Arrays = Mapping[str, NDArray[Any]]

# The files of a dataset's folder.
EPISODES, DOCUMENT = "episodes.npz", "dataset.json"
# Where it is stored for the whole run. A kind of its own, because the bucket deletes old trajectories by itself;
# template.yaml lets actors and learners read it.
KEY = keys.object_key("rounds/offline", "dataset")
_STARTS, _FINAL = "episode_starts", "final/"


class _Document(msgspec.Struct, frozen=True):
    """What DOCUMENT must say."""

    task: EnvTask
    spec: EnvSpec


def store_dataset(config: RunConfig, run: str, storage: Storage) -> Ref | None:
    """Stores the dataset in columns of a rollout's length; None when there is none.

    Raises `UserError` for a folder that is no dataset of the task, and `StorageFault`.
    """
    if config.offline.dataset is None:
        return None
    folder = Path(config.offline.dataset)
    document = _document(folder)
    if not same_task(document.task, config.task):
        other = f"{document.task.name}, or other options"
        raise UserError(f"offline.dataset {folder}: it was recorded on another task ({other})")
    spec = document.spec
    try:
        language.require_fitting(spec, document.task.last_action)
    except ValueError as error:
        raise UserError(f"offline.dataset {folder}: {folder / DOCUMENT}: {error}") from error
    arrays = _checked(folder, spec)
    length = config.actors.rollout_length or spec.horizon
    if (steps := int(arrays[_STARTS][-1])) < length:
        raise UserError(f"offline.dataset {folder}: it has {steps} steps, fewer than one rollout ({length})")
    try:
        columns = as_columns(arrays, spec, length)
    except SpaceError as error:
        raise UserError(f"offline.dataset {folder}: {one_line(error)}") from error
    body = codec.encode(columns, TaskHeader(task=f"{run}/dataset"))
    # An existing object belongs to a run of this name that never began.
    storage.delete([KEY])
    storage.put(KEY, body)
    return codec.reference(KEY, body)


def _document(folder: Path) -> _Document:
    path = folder / DOCUMENT
    try:
        return from_json(read_file(path), _Document)
    except UnreadableFile as error:
        advice = "marless export RUN --to npz --episodes N writes a dataset"
        raise UserError(f"offline.dataset {folder}: {error}; {advice}") from error
    except Undecodable as error:
        raise UserError(f"offline.dataset {folder}: {path} does not describe a dataset: {error}") from error


def _checked(folder: Path, spec: EnvSpec) -> Arrays:
    """The arrays of the dataset, with the shapes and ranges that the spaces have; raises `UserError`."""
    path = folder / EPISODES
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"offline.dataset {folder}: {path} is no file of numpy arrays (--to npz writes one)") from error
    if wrong := next(filter(None, (expected.fault(arrays) for expected in _expected(spec))), "") or _bad_starts(arrays):
        raise UserError(f"offline.dataset {folder}: {wrong}")
    return arrays


class _Expected(NamedTuple):
    """An array of a dataset: its shape without steps, and the least and the most of its values."""

    name: str
    shape: tuple[int, ...]
    least: float = -np.inf
    most: float = np.inf

    def fault(self, arrays: Arrays) -> str:
        """How the array of this name is wrong; '' when it is not."""
        if _STARTS not in arrays or self.name not in arrays:
            return f"it has no array {self.name if _STARTS in arrays else _STARTS}"
        starts, array = arrays[_STARTS], arrays[self.name]
        rows = len(starts) - 1 if self.name.startswith(_FINAL) else int(starts[-1])
        if array.shape != (rows, *self.shape):
            return f"{self.name} is of shape {array.shape}, not {(rows, *self.shape)}"
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            return f"{self.name} holds what is not a number"
        if array.size and (array.min() < self.least or array.max() > self.most):
            return f"{self.name} has values beyond {self.least:g} to {self.most:g}"
        return ""


def _expected(spec: EnvSpec) -> list[_Expected]:
    found = [_Expected(name, (spec.state_size,)) for name in ("state", "final/state") if spec.state_size]
    for kind in spec.classes:
        for agent in kind.agents:
            name = spec.agents[agent]
            found += [_Expected(f"{at}{name}/observations", (kind.observation_size,)) for at in ("", _FINAL)]
            if spec.masked and not kind.continuous:
                found += [_Expected(f"{at}{name}/masks", (kind.actions,)) for at in ("", _FINAL)]
            found += [_Expected(f"{name}/{part}", ()) for part in ("rewards", "terminations", "alive")]
            found.append(_expected_actions(f"{name}/actions", kind, _action_codec(kind)))
    return found


def _expected_actions(name: str, kind: AgentClass, codec: ActionCodec) -> _Expected:
    if kind.continuous:
        return _Expected(name, codec.shape, min(kind.low), max(kind.high))
    last = codec.start.reshape(-1) + np.array(codec.counts) - 1
    return _Expected(name, codec.shape, int(codec.start.min()), int(last.max()))


def _action_codec(kind: AgentClass) -> ActionCodec:
    return language.codec_of(kind, kind.name, last_action=False, masked=False).action


def _bad_starts(arrays: Arrays) -> str:
    starts = arrays[_STARTS]
    if len(starts) > 1 and starts[0] == 0 and (np.diff(starts) > 0).all():
        return ""
    return f"{_STARTS} does not rise from 0 to the number of steps"


def as_columns(arrays: Arrays, spec: EnvSpec, length: int) -> codec.Tensors:
    """All steps one after the other in C columns of `length` steps, as `functions.data.dataset` has them.

    An episode may go on in the next column. The last steps, which fill no column, are left out.
    """
    starts = arrays[_STARTS]
    count = int(starts[-1]) // length
    ended = np.zeros(int(starts[-1]), np.bool_)
    ended[starts[1:] - 1] = True

    def columns(steps: NDArray[Any]) -> NDArray[Any]:
        return steps[: count * length].reshape(count, length, *steps.shape[1:]).swapaxes(0, 1)

    def by_agent(part: str, agents: tuple[int, ...], change: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        return np.stack([columns(change(arrays[f"{spec.agents[agent]}/{part}"])) for agent in agents])

    everyone = tuple(range(len(spec.agents)))
    tensors = {
        "ended": columns(ended),
        "reward": by_agent("rewards", everyone, _as(np.float32)),
        "terminated": by_agent("terminations", everyone, _as(np.bool_)),
        "alive": by_agent("alive", everyone, _as(np.bool_)),
        RETURN: by_agent("rewards", everyone, lambda rewards: _returns(rewards, starts)),
    }
    cut, after = _cuts(arrays, spec, ended, count * length, length)
    tensors["cut"] = np.stack([cut % length, cut // length], axis=1)
    for index, kind in enumerate(spec.classes):
        agents = kind.agents
        tensors[f"observation/{index}"] = by_agent("observations", agents, _as(np.float32))
        tensors[f"cut_observation/{index}"] = np.stack([after(f"{spec.agents[one]}/observations") for one in agents])
        tensors[f"action/{index}"] = by_agent("actions", agents, _as_recorded(kind))
        if spec.masked:
            tensors |= _masks(index, kind, tensors, spec, by_agent, after)
    if spec.state_size:
        tensors |= {"state": columns(arrays["state"].astype(np.float32)), "cut_state": after("state")}
    return {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def _masks(
    index: int,
    kind: AgentClass,
    tensors: codec.Tensors,
    spec: EnvSpec,
    by_agent: Callable[..., NDArray[Any]],
    after: Callable[[str], NDArray[Any]],
) -> codec.Tensors:
    """The class's masks, all true for continuous actions."""
    if kind.continuous:
        shapes = {"mask": tensors[f"observation/{index}"].shape, "cut_mask": tensors[f"cut_observation/{index}"].shape}
        return {f"{name}/{index}": np.ones((*shape[:-1], kind.actions), np.bool_) for name, shape in shapes.items()}
    cut = np.stack([after(f"{spec.agents[agent]}/masks") for agent in kind.agents]).astype(np.bool_)
    return {f"mask/{index}": by_agent("masks", kind.agents, _as(np.bool_)), f"cut_mask/{index}": cut}


def _cuts(
    arrays: Arrays, spec: EnvSpec, ended: NDArray[np.bool_], steps: int, length: int
) -> tuple[NDArray[np.int64], Callable[[str], NDArray[Any]]]:
    """The steps after which a value is bootstrapped that the next step of the column does not show: where an episode
    ends with agents alive, and where a column ends within an episode; and what is seen after them, by name."""
    left = np.any(
        [arrays[f"{name}/alive"].astype(bool) & ~arrays[f"{name}/terminations"].astype(bool) for name in spec.agents],
        axis=0,
    )
    column_ends = np.arange(len(ended)) % length == length - 1
    cut = np.flatnonzero(np.where(ended, left, column_ends)[:steps])
    within = ~ended[cut]
    episode = np.cumsum(ended)[cut] - 1

    def after(name: str) -> NDArray[Any]:
        following = arrays[name][np.minimum(cut + 1, len(ended) - 1)].astype(np.float32)
        final = arrays[f"{_FINAL}{name}"][np.maximum(episode, 0)].astype(np.float32)
        return np.where(within[:, None], following, final)

    return cut, after


def _as(dtype: Any) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda array: array.astype(dtype)


def _returns(rewards: NDArray[Any], starts: NDArray[Any]) -> NDArray[Any]:
    """The undiscounted return at the last step of each episode, 0 elsewhere."""
    returns = np.zeros(len(rewards))
    returns[starts[1:] - 1] = np.add.reduceat(rewards.astype(np.float64), starts[:-1])
    return returns


def _as_recorded(kind: AgentClass) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Changes actions of the environment to those that policies record: choices from 0, numbers in [-1, 1]."""
    space = _action_codec(kind)
    if not kind.continuous:
        return lambda actions: space.encode(actions, actions.shape[:1], "an action").astype(np.int32)
    low, high = np.array(kind.low), np.array(kind.high)
    width = np.where(high > low, high - low, 1.0)

    def recorded(actions: NDArray[Any]) -> NDArray[Any]:
        flat = actions.reshape(len(actions), -1)
        return np.asarray(np.clip(2 * (flat - low) / width - 1, -1, 1), np.float32)

    return recorded
