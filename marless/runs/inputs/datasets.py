"""A dataset of `marless export`, or of another program in its format, stored as the data of a new run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.drive.ports import Storage
from marless.coordinator.errors import UserError, one_line
from marless.coordinator.file_reading import UnreadableFile, read_file
from marless.functions import codec
from marless.functions.data.dataset import RETURN
from marless.functions.encoding import Undecodable, from_json
from marless.functions.environments import native_spaces
from marless.functions.environments.base import AgentClass, EnvSpec, EnvTask
from marless.functions.environments.last_action import within_unit
from marless.functions.messages.exchange import TaskHeader
from marless.functions.messages.message import Ref
from marless.program import program_name
from marless.reports.policy import same_task
from marless.runs.inputs.npz import ArrayFault, opened_numbers
from marless.runs.inputs.recorded_episodes import FINAL, STARTS, Arrays, action_codec, read_episodes

# The files of a dataset's folder.
EPISODES, DOCUMENT = "episodes.npz", "dataset.json"
# The most bytes of the latter.
_LONGEST_DOCUMENT = 1 << 24


class _Document(msgspec.Struct, frozen=True):
    task: EnvTask
    spec: EnvSpec


def store_dataset(config: RunConfig, run: str, storage: Storage) -> Ref | None:
    """Store the dataset in columns of a rollout's length, or return None.

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
        native_spaces.require_fitting(spec, document.task.last_action)
    except ValueError as error:
        raise UserError(f"offline.dataset {folder}: {folder / DOCUMENT}: {error}") from error
    arrays = _read_arrays(folder, spec)
    length = config.actors.rollout_length or spec.horizon
    if (steps := int(arrays[STARTS][-1])) < length:
        raise UserError(f"offline.dataset {folder}: it has {steps} steps, fewer than one rollout ({length})")
    body = codec.encode(as_columns(arrays, spec, length), TaskHeader(task=f"{run}/dataset"))
    key = codec.dataset_key(spec)
    # An existing object belongs to a run of this name that never began.
    storage.delete([key])
    storage.put(key, body)
    return codec.reference(key, body)


def _document(folder: Path) -> _Document:
    path = folder / DOCUMENT
    try:
        return from_json(read_file(path, _LONGEST_DOCUMENT), _Document)
    except UnreadableFile as error:
        advice = f"{program_name()} export RUN --to npz --episodes N writes a dataset"
        raise UserError(f"offline.dataset {folder}: {error}; {advice}") from error
    except Undecodable as error:
        raise UserError(f"offline.dataset {folder}: {path} does not describe a dataset: {error}") from error


def _read_arrays(folder: Path, spec: EnvSpec) -> Arrays:
    try:
        with opened_numbers(folder / EPISODES) as numbers:
            return read_episodes(numbers, spec)
    except (UnreadableFile, ArrayFault) as error:
        raise UserError(f"offline.dataset {folder}: {one_line(error)}") from error


def as_columns(arrays: Arrays, spec: EnvSpec, length: int) -> codec.Tensors:
    """All steps one after the other in C columns of `length` steps, as `marless.functions.data.dataset` has them.

    An episode may continue in the next column. The last steps, which fill no column, are left out.
    """
    starts = arrays[STARTS]
    count = int(starts[-1]) // length
    episode_ends = np.zeros(int(starts[-1]), np.bool_)
    episode_ends[starts[1:] - 1] = True

    def columns(steps: NDArray[Any]) -> NDArray[Any]:
        return steps[: count * length].reshape(count, length, *steps.shape[1:]).swapaxes(0, 1)

    def by_agent(part: str, agents: tuple[int, ...], change: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        return np.stack([columns(change(arrays[f"{spec.agents[agent]}/{part}"])) for agent in agents])

    everyone = tuple(range(len(spec.agents)))
    tensors = {
        "ended": columns(episode_ends),
        "reward": by_agent("rewards", everyone, _as(np.float32)),
        "terminated": by_agent("terminations", everyone, _as(np.bool_)),
        "alive": by_agent("alive", everyone, _as(np.bool_)),
        RETURN: by_agent("rewards", everyone, lambda rewards: _returns(rewards, starts)),
    }
    cut, after = _cuts(arrays, spec, episode_ends, count * length, length)
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
    if kind.continuous:
        shapes = {"mask": tensors[f"observation/{index}"].shape, "cut_mask": tensors[f"cut_observation/{index}"].shape}
        return {f"{name}/{index}": np.ones((*shape[:-1], kind.actions), np.bool_) for name, shape in shapes.items()}
    cut = np.stack([after(f"{spec.agents[agent]}/masks") for agent in kind.agents]).astype(np.bool_)
    return {f"mask/{index}": by_agent("masks", kind.agents, _as(np.bool_)), f"cut_mask/{index}": cut}


def _cuts(
    arrays: Arrays, spec: EnvSpec, episode_ends: NDArray[np.bool_], steps: int, length: int
) -> tuple[NDArray[np.int64], Callable[[str], NDArray[Any]]]:
    """Return the steps that need a bootstrapped value, and the observations after these steps, by name. The next step
    of the column does not show it at an episode's end with agents alive, or at a column's end."""
    anyone_left = np.any(
        [arrays[f"{name}/alive"].astype(bool) & ~arrays[f"{name}/terminations"].astype(bool) for name in spec.agents],
        axis=0,
    )
    column_ends = np.arange(len(episode_ends)) % length == length - 1
    cut = np.flatnonzero(np.where(episode_ends, anyone_left, column_ends)[:steps])
    within = ~episode_ends[cut]
    episode = np.cumsum(episode_ends)[cut] - 1

    def after(name: str) -> NDArray[Any]:
        following = arrays[name][np.minimum(cut + 1, len(episode_ends) - 1)].astype(np.float32)
        final = arrays[f"{FINAL}{name}"][np.maximum(episode, 0)].astype(np.float32)
        return np.where(within[:, None], following, final)

    return cut, after


def _as(dtype: Any) -> Callable[[NDArray[Any]], NDArray[Any]]:
    return lambda array: array.astype(dtype)


def _returns(rewards: NDArray[Any], starts: NDArray[Any]) -> NDArray[Any]:
    returns = np.zeros(len(rewards))
    returns[starts[1:] - 1] = np.add.reduceat(rewards.astype(np.float64), starts[:-1])
    return returns


def _as_recorded(kind: AgentClass) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return a function from the environment's actions to recorded actions: choices from 0, numbers in [-1, 1]."""
    space = action_codec(kind)
    if not kind.continuous:
        return lambda actions: space.encode(actions, actions.shape[:1], "an action").astype(np.int32)
    low, high = np.array(kind.low), np.array(kind.high)
    return lambda actions: np.clip(within_unit(actions.reshape(len(actions), -1), low, high), -1, 1)
