"""A run's current tensors, gathered from its objects, and their hash."""

from typing import Any

from numpy.typing import NDArray

from marless.coordinator.core.state import State
from marless.functions import codec
from marless.functions.keys import REWARD_SUMS
from marless.functions.storage_port import Blobs

Tensors = dict[str, NDArray[Any]]


def gather(state: State, blobs: Blobs) -> Tensors:
    """All tensors of the learner's state: policies, critics, optimisers, normalisers of the groups in use.

    Raises `CorruptObject` or `NoSuchObject` if storage lacks an object of the state.
    """
    gathered_tensors: Tensors = {}
    for index, ref in enumerate(state.objects):
        tensors = codec.decode(codec.fetch(blobs, ref), ref.key)
        # `policy/g00/w0` belongs to the part `policy/g00`.
        gathered_tensors |= {
            name: array for name, array in tensors.items() if state.parts.get("/".join(name.split("/")[:2])) == index
        }
    return gathered_tensors


def weights_sha256(state: State, blobs: Blobs) -> str:
    """The hash of the tensors of `gather` but `REWARD_SUMS`, by name. It does not depend on how objects hold them."""
    tensors = gather(state, blobs)
    return codec.tensors_sha256({name: array for name, array in tensors.items() if f"/{REWARD_SUMS}/" not in name})
