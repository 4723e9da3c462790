"""The replay buffer of a process: kept from one invocation to the next, and filled from storage."""

from collections.abc import Mapping, Sequence

from functions.contract import LearnTask, Past, WholeTask
from functions.data.replay_buffer import ReplayBuffer, RolloutKey, rollout_keys
from functions.data.trajectory import named, rollout_prefix
from functions.keys import round_name
from functions.ports import Blobs
from functions.serving import Tensors, read

# The buffer of the run that this process served last; another run starts with an empty one.
_kept: dict[str, ReplayBuffer] = {}


def replay_buffer_of(task: LearnTask | WholeTask) -> ReplayBuffer:
    """The replay buffer of the task's run, with the rollouts that this process has read before."""
    replay_buffer = _kept.get(task.run)
    if replay_buffer is None or replay_buffer.spec != task.spec:
        _kept.clear()
        replay_buffer = _kept[task.run] = ReplayBuffer(task.spec)
    return replay_buffer


def load_rounds(replay_buffer: ReplayBuffer, rounds: Sequence[Past], here: Mapping[int, Tensors], blobs: Blobs) -> None:
    """Makes the buffer hold the rollouts of `rounds`; reads from storage those that are neither kept nor in `here`, by
    round."""

    def read_missing(keys: Sequence[RolloutKey]) -> dict[RolloutKey, Tensors]:
        wanted, by_round = {key.round for key in keys}, dict(here)
        objects: dict[tuple[str, ...], Tensors] = {}
        for past in rounds:
            if past.round in wanted and past.round not in by_round:
                names = tuple(ref.key for ref in past.trajectories)
                if names not in objects:
                    objects[names] = read(blobs, past.trajectories)
                by_round[past.round] = _without_round(objects[names], past.round)
        return {key: named(by_round[key.round], f"{rollout_prefix(key.rollout)}/") for key in keys}

    replay_buffer.load(rollout_keys(rounds), read_missing)


def named_by_round(tensors: Tensors, round_: int) -> Tensors:
    """The tensors of one round, named as in an object that holds several rounds."""
    return {f"{round_name(round_)}/{name}": array for name, array in tensors.items()}


def _without_round(tensors: Tensors, round_: int) -> Tensors:
    """The tensors of one round, from an object that holds this round alone or several."""
    return named(tensors, f"{round_name(round_)}/") or tensors
