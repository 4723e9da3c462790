"""Rounds with stored trajectories: rounds in the replay buffer, or rounds that are not learned yet."""

from collections.abc import Mapping
from typing import NamedTuple

from marless.functions import codec
from marless.functions.data.origins import origin_of
from marless.functions.data.trajectory import Array, tensors_below
from marless.functions.keys import round_name
from marless.functions.messages.exchange import Origin
from marless.functions.messages.message import Ref
from marless.functions.storage_port import Blobs
from marless.runs.stored_run import Stored

Rollouts = Mapping[str, Mapping[str, Array]]


class SampledRound(NamedTuple):
    """The rollouts of a round by name, `marless.functions.data.trajectory.rollout_prefix`, in order, and their origin.

    Objects count rounds from 0, and users' files (metrics.jsonl) from 1.
    """

    origins: dict[str, Origin]
    rollouts: Rollouts


def stores(run: Stored, first: int, last: int) -> bool:
    """Return True if the run stores the trajectories of the rounds `first` to `last`, counted from 1."""
    stored_numbers = {past.round + 1 for past in run.saved_state.past if past.trajectories}
    return stored_numbers.issuperset(range(first, last + 1))


def stored_rounds(run: Stored, first: int, last: int) -> list[SampledRound]:
    """The rounds `first` to `last`, if the run stores all of them.

    Raises `CorruptObject`, `NoSuchObject` and `ForeignObject` for other objects than the run recorded.
    """
    return [
        sampled_round(run.storage, past.round, past.trajectories)
        for past in sorted(run.saved_state.past, key=lambda past: past.round)
        if first <= past.round + 1 <= last
    ]


def sampled_round(blobs: Blobs, round_: int, refs: tuple[Ref, ...]) -> SampledRound:
    """Round `round_`, counted from 0, from the objects that hold it. Raises like `stored_rounds`."""
    origins, rollouts = dict[str, Origin](), dict[str, Mapping[str, Array]]()
    for ref in refs:
        body = codec.fetch(blobs, ref)
        origin = origin_of(codec.header(body, ref.key).origins, ref.key, round_)
        tensors: Mapping[str, Array] = codec.decode(body, ref.key)
        tensors = tensors_below(tensors, f"{round_name(round_)}/") or tensors
        for name in sorted({name.split("/")[0] for name in tensors}):
            origins[name], rollouts[name] = origin, tensors_below(tensors, f"{name}/")
    return SampledRound(origins, dict(sorted(rollouts.items())))
