"""The window of earlier rounds, kept by the process from task to task and filled from storage where it is not."""

from collections.abc import Mapping, Sequence

from functions.contract import LearnTask, Past, WholeTask
from functions.data.replay_buffer import Unit, Window, rollouts_of
from functions.data.trajectory import named, rollout_prefix
from functions.keys import round_name
from functions.ports import Blobs
from functions.serving import Tensors, read

# Of the run that this process learned for last; a function that serves another begins anew.
_kept: dict[str, Window] = {}


def window(task: LearnTask | WholeTask) -> Window:
    """The window of the task's run, with what this process remembers of it."""
    found = _kept.get(task.run)
    if found is None or found.spec != task.spec:
        _kept.clear()
        found = _kept[task.run] = Window(task.spec)
    return found


def recall(kept: Window, rounds: Sequence[Past], here: Mapping[int, Tensors], blobs: Blobs) -> None:
    """Makes the window the units of `rounds`, reading from storage what is neither kept nor `here`, by round."""

    def missing(rollouts: Sequence[Unit]) -> dict[Unit, Tensors]:
        wanted, found = {rollout.round for rollout in rollouts}, dict(here)
        objects: dict[tuple[str, ...], Tensors] = {}
        for past in rounds:
            if past.round in wanted and past.round not in found:
                keys = tuple(ref.key for ref in past.trajectories)
                if keys not in objects:
                    objects[keys] = read(blobs, past.trajectories)
                found[past.round] = _of_round(objects[keys], past.round)
        return {rollout: named(found[rollout.round], f"{rollout_prefix(rollout.rollout)}/") for rollout in rollouts}

    kept.hold(rollouts_of(rounds), missing)


def of_round(tensors: Tensors, round_: int) -> Tensors:
    """What one round gave, named as if it stood in an object of several."""
    return {f"{round_name(round_)}/{name}": array for name, array in tensors.items()}


def _of_round(tensors: Tensors, round_: int) -> Tensors:
    """The tensors of one round, in an object of its own or of several rounds."""
    return named(tensors, f"{round_name(round_)}/") or tensors
