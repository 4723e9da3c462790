"""DeepSets, a control of attention: equal entities are added up, without weights between them.

A factory of `algorithm.network` for three agents of `mpe/simple_spread`, after Zaheer et al., "Deep Sets", 2017.
"""

import torch
from torch import Tensor, nn

from marless.functions.environments.base import EnvTask
from marless.functions.environments.registry import spec
from marless.functions.nn.shape import NetworkShape


class DeepSets(nn.Module):
    """Each block of entities has two layers for one entity, and the mean over its entities."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        entities = spec(EnvTask(name="mpe/simple_spread", agents=3)).classes[0].entities
        assert entities is not None
        first, last = shape.hidden[0], shape.hidden[-1]
        self._own = list(entities.own)
        self._columns = [torch.tensor(block.columns) for block in entities.blocks]
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(block.features, first), nn.ReLU(), nn.Linear(first, first), nn.ReLU())
            for block in entities.blocks
        )
        inputs = len(self._own) + first * len(self.blocks) + shape.rest
        outputs = nn.Linear(last, shape.outputs)
        nn.init.orthogonal_(outputs.weight, shape.output_gain)
        self.dense = nn.Sequential(nn.Linear(inputs, last), nn.ReLU(), outputs)

    def forward(self, observation: Tensor, rest: Tensor) -> Tensor:
        """Return the outputs ``[B, outputs]`` for observations ``[B, columns]`` and the rest ``[B, rest]``."""
        pairs = zip(self.blocks, self._columns, strict=True)
        pooled = [block(observation[:, columns]).mean(dim=1) for block, columns in pairs]
        return self.dense(torch.cat([observation[:, self._own], *pooled, rest], dim=1))  # type: ignore[no-any-return]


def make(shape: NetworkShape) -> DeepSets:
    """Return the module of a shape."""
    return DeepSets(shape)
