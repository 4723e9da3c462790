"""Target networks: older weights that targets are computed with, so that a step does not move what it aims at.

Pure functions of named tensors. Online and target tensors have the same names here; a caller that stores them under
different prefixes takes those off first.
"""

from collections.abc import Mapping

from functions.nn.mlp import Array


def hard(online: Mapping[str, Array], target: Mapping[str, Array], updates: int, every: int) -> dict[str, Array]:
    """The target after `updates` updates since the start: a copy of `online` after each `every` (Mnih et al., 2015).

    Between copies `target` stays. Raises `ValueError` when the names differ or `every` is below 1.
    """
    _require_same(online, target)
    if every < 1:
        raise ValueError(f"a target is copied every 1 or more updates, not every {every}")
    if updates % every:
        return dict(target)
    return {name: tensor.copy() for name, tensor in online.items()}


def polyak(online: Mapping[str, Array], target: Mapping[str, Array], rate: float) -> dict[str, Array]:
    """``(1 - rate) target + rate online``, the soft update of DDPG (Lillicrap et al., 2016).

    At rate 1 this is `online` to the bit. Raises `ValueError` when the names differ or `rate` is not within 0 to 1.
    """
    _require_same(online, target)
    if not 0 <= rate <= 1:
        raise ValueError(f"the rate of a soft update is from 0 to 1, not {rate}")
    return {name: (1 - rate) * target[name] + rate * tensor for name, tensor in online.items()}


def _require_same(online: Mapping[str, Array], target: Mapping[str, Array]) -> None:
    if online.keys() != target.keys():
        odd = ", ".join(sorted(online.keys() ^ target.keys()))
        raise ValueError(f"the online and the target network do not have the same tensors: {odd}")
