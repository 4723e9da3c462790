"""A training loop in one process, without functions, messages and storage. A form of the baseline plays and learns."""

import json
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import RunConfig
from marless.functions.environments import registry as environments

NUM_ENVS = 64
STEPS = 400_000
EVALUATION_EPISODES = 320
TARGETS = (-46.0, -36.0)
# A run without current kernels fails. By default it would measure numpy.
NATIVE = "algorithm.engine=native"


class Form(Protocol):
    """A form of the baseline: it plays one rollout a round and learns from it."""

    def round(self, number: int, progress: float) -> None:
        """Play and learn round `number`, from 0. `progress` is the share of the run before it."""

    def greedy_return(self, number: int, episodes: int) -> float:
        """Return the mean return of greedy episodes after round `number`, undiscounted, summed over agents."""

    def weights_sha256(self) -> str:
        """Return the hash of all networks, optimiser states and normalisers, or '' if the form has another state."""


@dataclass(frozen=True)
class Point:
    """The greedy return of the policies after `env_steps` steps and `seconds` of training."""

    env_steps: int
    seconds: float
    greedy_return: float


@dataclass
class Record:
    """A run: training time excludes evaluation. The rate also excludes the first round, which warms up."""

    seed: int
    env_steps: int = 0
    seconds: float = 0.0
    env_steps_per_second: float = 0.0
    seconds_to: dict[str, float | None] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)
    weights_sha256: str = ""


def settings(seed: int, steps: int, num_envs: int = NUM_ENVS, others: Sequence[str] = ()) -> RunConfig:
    """Return the settings of the default run with so many environments, and minibatches of the same size.

    `others` override them.
    """
    minibatches = 8 * num_envs // NUM_ENVS
    return load(
        None,
        [
            f"seed={seed}",
            f"stop.env_steps={steps}",
            f"actors.num_envs={num_envs}",
            f"algorithm.num_minibatches={minibatches}",
            NATIVE,
            *others,
        ],
    )


def train(form: Form, config: RunConfig, evaluate_every: int, until: float | None = None) -> Record:
    """Train until the settings' end, or a greedy return of `until`. Evaluate every `evaluate_every` rounds, or never if
    that is 0."""
    record = Record(config.seed)
    per_round = config.actors.num_envs * environments.spec(config.task).horizon
    limit, first = config.stop.env_steps or 0, 0.0
    for number in range(-(-limit // per_round)):
        limits = ((number, config.stop.rounds), (record.env_steps, limit))
        began = time.perf_counter()
        form.round(number, max(over / most for over, most in limits if most))
        record.seconds += time.perf_counter() - began
        record.env_steps += per_round
        first = first or record.seconds
        if evaluate_every and (number + 1) % evaluate_every == 0:
            reached = form.greedy_return(number, EVALUATION_EPISODES)
            record.points.append(Point(record.env_steps, record.seconds, reached))
            if until is not None and reached >= until:
                break
    if record.env_steps > per_round:
        record.env_steps_per_second = (record.env_steps - per_round) / (record.seconds - first)
    for target in TARGETS:
        times = (point.seconds for point in record.points if point.greedy_return >= target)
        record.seconds_to[f"{target:g}"] = next(times, None)
    record.weights_sha256 = form.weights_sha256()
    return record


def parser(module: str, description: str | None) -> ArgumentParser:
    """Return the options that both forms have."""
    options = ArgumentParser(prog=f"python -m benchmarks.baseline.{module}", description=description)
    options.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings, as of marless train")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--steps", type=int, default=320_000, help="environment steps")
    options.add_argument("--envs", type=int, default=NUM_ENVS, help="environments of a round")
    options.add_argument("--eval-every", type=int, default=10, help="rounds between evaluations, or 0 for none")
    options.add_argument("--until", type=float, help="stop at this greedy return")
    options.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return options


def run(options: Any, form: Callable[[RunConfig], Form]) -> None:
    """Train a form by its options, and print the record."""
    config = settings(options.seed, options.steps, options.envs, options.settings)
    record = train(form(config), config, options.eval_every, options.until)
    if options.json:
        print(json.dumps(asdict(record)))
        return
    for point in record.points:
        print(f"{point.env_steps:>9,} steps  {point.seconds:6.2f} s  greedy return {point.greedy_return:7.2f}")
    reached = ", ".join(
        f"{target} after {'no time' if at is None else f'{at:.2f} s'}" for target, at in record.seconds_to.items()
    )
    print(f"{record.env_steps_per_second:,.0f} environment steps/s; {reached}")
