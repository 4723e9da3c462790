"""The origin of trajectories: the round that collected them, and the policies that played them.

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
    """The hash of the policies of all groups of the team, fixed opponents included, or '' without policies.

    It ignores the objects that hold them and other `tensors`.
    """
    parts = {f"policy/{group_name(group)}" for group in team.groups}
    policies = {name: array for name, array in tensors.items() if "/".join(name.split("/")[:2]) in parts}
    return codec.tensors_sha256(policies) if policies else ""


def origin(task: SampleTask | WholeTask, tensors: Mapping[str, NDArray[Any]], round_: int) -> Origin:
    """Return the origin of the task's rollouts in round `round_`: the policies in `tensors`, or a dataset."""
    if (recording := task.sampling.recorded) is not None:
        return Origin(round=round_, dataset=recording.dataset.sha256)
    return Origin(round=round_, policies=policies_sha256(tensors, task.team))


def read_sampled(blobs: Blobs, refs: tuple[Ref, ...], rounds: Collection[int]) -> Tensors:
    """Return the tensors of rollouts from `rounds`, by name, from their objects. Raises the errors of `serving.fetch`
    and `require_sampled_in`."""
    tensors: Tensors = {}
    origins: dict[str, tuple[Origin, ...]] = {}
    for ref in refs:
        body = fetch(blobs, ref)
        origins[ref.key] = codec.header(body, ref.key).origins
        tensors |= codec.decode(body, ref.key)
    require_sampled_in(rounds, origins)
    return tensors


def require_sampled_in(rounds: Collection[int], origins: Mapping[str, tuple[Origin, ...]]) -> None:
    """Raises `ForeignObject` unless every object, by key, holds rollouts of each of `rounds`, with the same policies
    within a round."""
    for round_ in rounds:
        policies: dict[str, str] = {}
        for key, of_object in origins.items():
            policies.setdefault(origin_of(of_object, key, round_).policies, key)
        if len(policies) > 1:
            first, second = list(policies.values())[:2]
            raise ForeignObject(f"{first} and {second} are of round {round_}, but were sampled with different policies")


def origin_of(origins: Iterable[Origin], key: str, round_: int) -> Origin:
    """Return the origin of round `round_` in the object `key`. Raises `ForeignObject` if it has no such rollouts."""
    by_round = {origin.round: origin for origin in origins}
    if round_ not in by_round:
        ages = ", ".join(f"round {origin}" for origin in by_round) or "a round that its header does not name"
        raise ForeignObject(f"{key} was sampled in {ages}; round {round_} was to be read")
    return by_round[round_]
