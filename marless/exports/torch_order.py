"""`task.order` in torch: the arithmetic of `marless.functions.environments.spaces.orders`, operation by operation."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from marless.functions.environments.spaces.orders import Block, EntityOrder, SortedBlock


class SortedEntities(nn.Module):
    """Sorts the entities of observations ``[rows, columns]``."""

    def __init__(self, order: EntityOrder) -> None:
        super().__init__()
        self.blocks, self.origin = order.blocks, order.origin

    def forward(self, rows: Tensor) -> Tensor:
        """Return the observations with sorted blocks."""
        parts, columns = [], []
        for one in self.blocks:
            places = torch.sort(self._keys(rows, one), dim=-1, stable=True).indices
            entities = _of(rows, one.block.columns)
            parts.append(entities.gather(1, places[..., None].expand_as(entities)).flatten(1))
            columns.append(one.block.columns.reshape(-1))
        rest = np.setdiff1d(np.arange(rows.shape[1]), np.concatenate(columns))
        parts.append(_of(rows, rest))
        return _of(torch.cat(parts, dim=1), np.argsort(np.concatenate([*columns, rest])))

    def _keys(self, rows: Tensor, one: SortedBlock) -> Tensor:
        position = _of(rows, one.block.position)
        keys = _length(position - _of(rows, self.origin)[:, None] if self.origin.size else position)
        if one.teammates:
            nearest = torch.cat([_distances(rows, position, other) for other in one.teammates], dim=-1).amin(-1)
            keys = keys - torch.where(nearest == torch.inf, 0.0, nearest)
        return torch.where(_are_absent(rows, one.block), torch.inf, keys) if one.block.absent.size else keys


def _of(rows: Tensor, columns: NDArray[np.intp]) -> Tensor:
    return rows[:, torch.from_numpy(columns)]


def _distances(rows: Tensor, position: Tensor, others: Block) -> Tensor:
    distances = _length(position[:, :, None] - _of(rows, others.position)[:, None])
    if not others.absent.size:
        return distances
    return torch.where(_are_absent(rows, others)[:, None], torch.inf, distances)


def _are_absent(rows: Tensor, block: Block) -> Tensor:
    return (_of(rows, block.columns) == torch.from_numpy(block.absent)).all(-1)


def _length(differences: Tensor) -> Tensor:
    total: Any = differences[..., 0] * differences[..., 0]
    for coordinate in range(1, differences.shape[-1]):
        total = total + differences[..., coordinate] * differences[..., coordinate]
    return torch.sqrt(total)
