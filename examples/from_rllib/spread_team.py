"""The code of a user of RLlib: an environment of PettingZoo and a module of torch. Both programs use it as it is."""

from typing import Any

import torch
from mpe2 import simple_spread_v3


def make_environment() -> Any:
    """Three agents who are to cover three landmarks, in episodes of 25 steps."""
    return simple_spread_v3.parallel_env(N=3, max_cycles=25)


def perceptron(inputs: int, outputs: int, gain: float = 0.01) -> torch.nn.Module:
    """Two layers of 64. The first outputs are small, so that all actions are tried."""
    last = torch.nn.Linear(64, outputs)
    torch.nn.init.orthogonal_(last.weight, gain)
    return torch.nn.Sequential(
        torch.nn.Linear(inputs, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Tanh(), last
    )
