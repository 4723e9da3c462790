"""The guard of the torch baseline: the time of its learner, next to the passes that any learner in torch makes.

Both are measured in turn in one process, so the share holds on any machine. A slow loop around the passes lowers it.
"""

import json
import time
from argparse import ArgumentParser
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.baseline import loop
from benchmarks.baseline.networks import Networks
from benchmarks.baseline.torch_form import TorchForm, play
from marless.functions.environments.registry import make
from marless.functions.setting_limits import FEWEST_MINIBATCHES


def passes(networks: Networks, rows: int) -> Callable[[], None]:
    """Return a function that makes one forward and one backward pass over so many rows, without a loss."""
    agents, inputs, _ = networks.weights[0].shape
    values = torch.rand(agents, rows, inputs)
    gradient = torch.rand(agents, rows, networks.weights[-1].shape[2])
    parameters: list[Tensor] = list(networks.parameters)

    def once() -> None:
        """Compute the gradients and drop them."""
        torch.autograd.grad(networks(values), parameters, gradient)

    return once


def main() -> None:
    """Print milliseconds of the learner's round, and of its passes, for each repetition as JSON."""
    parser = ArgumentParser(prog="python -m benchmarks.baseline.passes", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    config = loop.settings(options.seed, loop.STEPS)
    form, environment = TorchForm(config), make(config.task, config.actors.num_envs)
    episodes, settings = play(environment, form.actors, config.seed, 0), form.learner.config
    parts = settings.num_minibatches or FEWEST_MINIBATCHES
    rows = episodes.rewards[0].size // parts
    both = [passes(networks, rows) for networks in (form.learner.policy, form.learner.critic)]
    times: dict[str, list[float]] = {"learning_ms": [], "passes_ms": []}
    form.learner.update(episodes, 0.0)
    for _ in range(options.repetitions):
        began = time.perf_counter()
        form.learner.update(episodes, 0.0)
        learned = time.perf_counter()
        for once in both * (settings.epochs * parts):
            once()
        times["learning_ms"].append((learned - began) * 1000)
        times["passes_ms"].append((time.perf_counter() - learned) * 1000)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
