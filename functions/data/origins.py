"""Where trajectories come from: the round that they were collected in, and the policies that they were played with.

The header of an object with trajectories names both (`messages.exchange.Origin`), so that a learner refuses data of
another age than its task promises.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from marless.functions import codec
from marless.functions.errors import ForeignObject
from marless.functions.keys import group_name
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.exchange import Origin
from marless.functions.messages.learner import WholeTask
from marless.functions.messages.message import Ref
from marless.functions.messages.team import Team
from marless.functions.serving import Tensors, fetch
from marless.functions.storage_port import Blobs


def policies_sha256(tensors: Mapping[str, NDArray[Any]], team: Team) -> str:
    """The hash of the policies of all groups of the team, fixed opponents included; '' where no agent has one.

    It depends neither on the objects that hold them nor on what else is in `tensors`.
    """
    parts = {f"policy/{group_name(group)}" for group in team.groups}
    policies = {name: array for name, array in tensors.items() if "/".join(name.split("/")[:2]) in parts}
    return codec.tensors_sha256(policies) if policies else ""


def origin(task: SampleTask | WholeTask, tensors: Mapping[str, NDArray[Any]], round_: int) -> Origin:
    """Of the task's rollouts in round `round_`, which are played with the policies in `tensors` or read from a
    dataset."""
    if (recording := task.sampling.recorded) is not None:
        return Origin(round=round_, dataset=recording.dataset.sha256)
    return Origin(round=round_, policies=policies_sha256(tensors, task.team))


def read_sampled(blobs: Blobs, refs: tuple[Ref, ...], rounds: Collection[int]) -> Tensors:
    """As `marless.functions.serving.read`, the objects of rollouts that were collected in `rounds`; raises what
    `require_sampled_in` raises for other ones."""
    tensors: Tensors = {}
    origins: dict[str, tuple[Origin, ...]] = {}
    for ref in refs:
        body = fetch(blobs, ref)
        origins[ref.key] = codec.header(body, ref.key).origins
        tensors |= codec.decode(body, ref.key)
    require_sampled_in(rounds, origins)
    return tensors


def require_sampled_in(rounds: Collection[int], origins: Mapping[str, tuple[Origin, ...]]) -> None:
    """Raises `ForeignObject` unless every object, by key, holds rollouts of each of `rounds`, those of a round played
    with the same policies."""
    for round_ in rounds:
        policies: dict[str, str] = {}
        for key, of_object in origins.items():
            policies.setdefault(origin_of(of_object, key, round_).policies, key)
        if len(policies) > 1:
            first, second = list(policies.values())[:2]
            raise ForeignObject(f"{first} and {second} are of round {round_}, but were sampled with different policies")


def origin_of(origins: Iterable[Origin], key: str, round_: int) -> Origin:
    """That of the rollouts of round `round_` in the object `key`; raises `ForeignObject` where it holds none."""
    by_round = {origin.round: origin for origin in origins}
    if round_ not in by_round:
        ages = ", ".join(f"round {origin}" for origin in by_round) or "a round that its header does not name"
        raise ForeignObject(f"{key} was sampled in {ages}; round {round_} was to be read")
    return by_round[round_]
