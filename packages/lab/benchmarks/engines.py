"""Time of an optimiser step of each engine, by rows of the minibatch and width of the hidden layers.

Also the time of a step of actors with a perceptron, by numpy and by ONNX Runtime. All run in one process on one thread,
in turn. With a GPU at hand, so does torch on it.
"""

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from marless.functions.algorithms.engine import Descent, OptimiserSettings, engine_of
from marless.functions.algorithms.minibatches import Independent, Minibatches, PassOrder
from marless.functions.algorithms.ppo import ippo
from marless.functions.algorithms.ppo.specs import IppoConfig
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.messages.team import Team
from marless.functions.nn import recurrent
from marless.functions.nn.batched_acting import batch_networks
from marless.functions.nn.discrete import OneChoice
from marless.functions.nn.layers import Array
from marless.functions.nn.losses import ClippedPolicyLoss
from marless.functions.nn.shape import Network, NetworkShape

ROWS = (200, 1600, 12_800, 64_000)
WIDTHS = (32, 64, 128, 256, 512, 1024)
INPUTS, ACTIONS = 18, 5
SETTINGS = OptimiserSettings(1e-4, 1e-5, 10.0)
LARGEST_S = 1.0  # of a size and engine, in a repetition


def table(repetitions: int) -> str:
    """Return a markdown table: milliseconds of a step with numpy, and the other engines' share of them."""
    with threadpool_limits(1):
        return "\n\n".join((_learners(repetitions), _actors(repetitions)))


def _learners(repetitions: int) -> str:
    rivals = {"native": ("native", "cpu"), "torch": ("torch", "cpu")} | (
        {"torch on the GPU": ("torch", "cuda")} if _gpu() else {}
    )
    lines = [
        "| rows of a minibatch | width of both hidden layers | numpy, ms a step | "
        + " | ".join(f"{name} / numpy" for name in rivals)
        + " |",
        "|---" * (3 + len(rivals)) + "|",
    ]
    for rows in ROWS:
        for width in WIDTHS:
            plain, *others = _measured(rows, width, [("numpy", "cpu"), *rivals.values()], repetitions)
            ratios = [_spread([other / base for other, base in zip(found, plain, strict=True)]) for found in others]
            cells = (f"{rows:,}", f"{width}", f"{1000 * statistics.median(plain):.2f}", *ratios)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _actors(repetitions: int) -> str:
    """A markdown table: microseconds of a step of three agents with separate networks, by environments of a rollout."""
    lines = ["| environments | width | numpy, us a step | ONNX Runtime / numpy |", "|---" * 4 + "|"]
    for environments in (8, 64, 640):
        for width in (64, 256):
            acting = [_acting(environments, width, network) for network in ("mlp", f"{__name__}:Perceptron")]
            for act in acting:
                act()
            pairs = [[_timed(act) for act in acting] for _ in range(repetitions)]
            ratio = _spread([other / plain for plain, other in pairs])
            middle = 1e6 * statistics.median(plain for plain, _ in pairs)
            lines.append(f"| {environments} | {width} | {middle:.0f} | {ratio} |")
    return "\n".join(lines)


class Perceptron(torch.nn.Module):
    """The network `mlp` as a module."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        widths = (shape.width + shape.rest, *shape.hidden, shape.outputs)
        self.layers = torch.nn.ModuleList(itertools.starmap(torch.nn.Linear, itertools.pairwise(widths)))

    def forward(self, observation: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
        """See `marless.functions.nn.shape`."""
        values = torch.cat([observation, rest], dim=1)
        for layer in self.layers[:-1]:
            values = torch.tanh(layer(values))
        return self.layers[-1](values)  # type: ignore[no-any-return]


def _acting(environments: int, width: int, network: str) -> Callable[[], Any]:
    kind, team = AgentClass("agent", (0, 1, 2), INPUTS, ACTIONS), Team(groups=(0, 1, 2))
    spec = EnvSpec(("a", "b", "c"), (kind,), 25)
    config = IppoConfig(network=network, engine="numpy" if network == "mlp" else "torch", hidden=(width, width))
    tensors: dict[str, Array] = {}
    for group in team.groups:
        tensors |= ippo.initialise(spec, team, config, 1, group)
    networks = batch_networks(spec, team, tensors, 0)
    inputs = np.random.default_rng(0).standard_normal((3, 1, environments, INPUTS), dtype=np.float32)
    return lambda: networks.outputs(inputs, None)


def _gpu() -> bool:
    return torch.cuda.is_available()


def _spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _measured(rows: int, width: int, engines: list[tuple[str, str]], repetitions: int) -> list[list[float]]:
    """Seconds of a step, engine by engine, in every repetition."""
    steps = [_step(rows, width, *engine) for engine in engines]
    for step in steps:
        step()
    return [list(found) for found in zip(*([_timed(step) for step in steps] for _ in range(repetitions)), strict=True)]


def _timed(step: Callable[[], Any]) -> float:
    """Seconds of a step: the median of up to ten."""
    times: list[float] = []
    while len(times) < 10 and sum(times) < LARGEST_S:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _step(rows: int, width: int, engine: str, device: str) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    network = Network((INPUTS, width, width, ACTIONS))
    tensors = recurrent.to_tensors(network, recurrent.initialise(network, rng, 0.01), "policy")
    config = IppoConfig(engine=engine, device=device)  # type: ignore[arg-type]
    descent: Descent = engine_of(config).descent(tensors, "policy", SETTINGS)
    order = PassOrder(np.arange(rows), (0, rows))
    part = Minibatches(Independent(rng.standard_normal((rows, INPUTS), dtype=np.float32)), [order])
    loss = ClippedPolicyLoss(
        OneChoice(ACTIONS),
        rng.integers(ACTIONS, size=rows),
        np.full(rows, -np.log(ACTIONS), np.float32),
        rng.standard_normal(rows, dtype=np.float32),
        legal=None,
        clip=0.2,
        entropy_weight=0.01,
    )
    return lambda: list(descent.learn(part, loss))
