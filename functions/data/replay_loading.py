"""The replay buffer of a task: filled from storage, unless this process keeps it from an earlier task.

A process always keeps the buffer of the run that it served last. The next task of that run takes this memory anyway.
Buffers of other runs count towards the bound of `marless.functions.warm_cache`.
"""

from collections.abc import Mapping, Sequence

from marless.functions.data.origins import read_sampled
from marless.functions.data.replay_buffer import ReplayBuffer, RolloutKey, rollout_keys
from marless.functions.data.trajectory import rollout_prefix, tensors_below
from marless.functions.environments.base import EnvSpec
from marless.functions.keys import round_name
from marless.functions.messages.learner import Past
from marless.functions.messages.message import Ref
from marless.functions.serving import Tensors
from marless.functions.storage_port import Blobs
from marless.functions.warm_cache import WARM


def replay_buffer_of(spec: EnvSpec, past: Sequence[Past], newest_round: Past | None = None) -> ReplayBuffer:
    """Return the buffer that ends with the latest possible stored round of `past` and `newest_round`, or an empty
    buffer.

    It is taken out, so a task that fails while it fills the buffer drops it.
    """
    for newest in reversed((*past, newest_round) if newest_round else past):
        buffer: ReplayBuffer | None = WARM.take(_content(newest)) if newest.trajectories else None
        if buffer is not None and buffer.spec == spec:
            _count_hits(buffer, past)
            return buffer
    return ReplayBuffer(spec)


def _count_hits(replay_buffer: ReplayBuffer, past: Sequence[Past]) -> None:
    """Counts the objects of `past` that need not be read, because the buffer holds all their rounds."""
    missing = [not replay_buffer.holds(rollout_keys([round_])) for round_ in past]
    read_again = {ref.key for round_, lacks in zip(past, missing, strict=True) if lacks for ref in round_.trajectories}
    hits = {ref.key: ref.size for round_ in past for ref in round_.trajectories if ref.key not in read_again}
    WARM.hit(len(hits), sum(hits.values()))


def keep(replay_buffer: ReplayBuffer, rounds: Sequence[Past]) -> None:
    """Keep the buffer, which holds `rounds`, for later tasks, if some of these rounds are stored."""
    if with_trajectories := [past for past in rounds if past.trajectories]:
        replay_buffer.drop_unstored()
        WARM.keep(_content(with_trajectories[-1]), replay_buffer, replay_buffer.nbytes, is_spared=True)


def _content(past: Past) -> tuple[str, ...]:
    """Return the key of buffers. The buffer itself compares the hash of every rollout."""
    return ("replay buffer", *(ref.sha256 for ref in past.trajectories))


def load_rounds(replay_buffer: ReplayBuffer, rounds: Sequence[Past], here: Mapping[int, Tensors], blobs: Blobs) -> None:
    """Make the buffer hold the rollouts of `rounds`. `here` has rollouts by round. Others are read from storage, unless
    they are kept."""

    def read_missing(keys: Sequence[RolloutKey]) -> dict[RolloutKey, Tensors]:
        """The rollouts `keys`. Each object is read once."""
        round_numbers, by_round = {key.round for key in keys}, dict(here)
        objects: dict[tuple[Ref, ...], Tensors] = {}
        for past in rounds:
            if past.round in round_numbers and past.round not in by_round:
                if (refs := past.trajectories) not in objects:
                    together = [one.round for one in rounds if one.trajectories == refs]
                    objects[refs] = read_sampled(blobs, refs, together)
                by_round[past.round] = tensors_below(objects[refs], f"{round_name(past.round)}/") or objects[refs]
        return {key: tensors_below(by_round[key.round], f"{rollout_prefix(key.rollout)}/") for key in keys}

    replay_buffer.load(rollout_keys(rounds), read_missing)


def named_by_round(tensors: Tensors, round_: int) -> Tensors:
    """The tensors of one round, named like in an object that holds several rounds."""
    return {f"{round_name(round_)}/{name}": array for name, array in tensors.items()}
