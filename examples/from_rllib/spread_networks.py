"""The user's networks for `algorithm.network`, in place of an RLModule."""

from typing import Any

import torch
from spread_team import perceptron


class Flat(torch.nn.Module):
    """The perceptron over all that the network takes."""

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.body = perceptron(shape.width + shape.rest, shape.outputs, shape.output_gain)

    def forward(self, observation: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
        """``[B, inputs]`` and ``[B, rest]`` to ``[B, outputs]``."""
        out: torch.Tensor = self.body(torch.cat([observation.flatten(1), rest], dim=1))
        return out
