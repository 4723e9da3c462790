"""Time of sampling and learning for a round of the default size on one core, without functions, and the share of matrix
products in learning."""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from marless.functions.actor.rollout import collect
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.ppo.specs import MappoConfig, PpoConfig
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data import batch
from marless.functions.environments import registry as environments
from marless.functions.environments.base import EnvTask
from marless.functions.learner import stages
from marless.functions.messages.learner import SummaryName
from marless.functions.messages.team import Team
from marless.functions.nn.shape import Network
from marless.functions.policies import Policy
from marless.functions.setting_limits import FEWEST_MINIBATCHES

TASK = EnvTask(name="mpe/simple_spread")
NUM_ENVS, HIDDEN = 64, 64
LARGE = 1024

Array = NDArray[Any]
EngineName = Literal["auto", "numpy", "native"]
Layers = tuple[int, ...]
# Rows, inner width and columns of a matrix product.
Shape = tuple[int, int, int]


@dataclass
class Record:
    """One value per repetition: `sampling_ms` and `learning_ms` of the next round, `products_ms` of the learning's
    matrix products alone, `large_gflops` of a large product.

    `flops` counts multiplications and additions of the round's matrix products only. `parameters` counts one agent's
    policy and critic.
    """

    flops: float
    parameters: int
    sampling_ms: list[float] = field(default_factory=list)
    learning_ms: list[float] = field(default_factory=list)
    products_ms: list[float] = field(default_factory=list)
    large_gflops: list[float] = field(default_factory=list)


class Round:
    """Sampling and learning of one round of `rollouts` rollouts of `num_envs` environments. Starts with the policies of
    round 0. The networks have two hidden layers of `hidden` units, and `engine` computes them."""

    def __init__(
        self,
        task: EnvTask = TASK,
        num_envs: int = NUM_ENVS,
        rollouts: int = 1,
        hidden: int = HIDDEN,
        engine: EngineName = "auto",
    ) -> None:
        self._task, self._envs, self._rollouts = task, num_envs, tuple(range(rollouts))
        self.spec = environments.spec(task)
        self._mappo = algorithms.algorithm("mappo")
        self.config = MappoConfig(hidden=(hidden, hidden), engine=engine).resolved(self.spec)
        self._code = algorithms.implementation(self._mappo)
        self.team = Team(groups=tuple(range(len(self.spec.agents))))
        self._tensors: dict[str, Array] = {}
        for group in self.team.groups:
            self._tensors |= self._code.initialise(self.spec, self.team, self.config, 1, group)
        self._policy, self._number = Policy(self.spec, self.team, self._tensors), 1

    def sample(self) -> Context[PpoConfig]:
        """The sampled rollouts as the input of the stages."""
        sampled: dict[str, Array] = {}
        for rollout in self._rollouts:
            environment = environments.make(self._task, self._envs)
            sampled |= collect(environment, self._policy, self.spec.horizon, 1, self._number, rollout).tensors
        return Context(
            spec=self.spec,
            team=self.team,
            config=self.config,
            seed=1,
            round=self._number,
            batch=batch.join(self.spec, sampled, self._rollouts),
            tensors=self._tensors,
        )

    def learn(
        self, context: Context[PpoConfig], groups: Sequence[int] = (), summaries: Sequence[SummaryName] = ()
    ) -> stages.StageResults:
        """Runs all stages for `groups` (default: all groups) with the learner summaries `summaries`."""
        share = Share([stage.name for stage in self._mappo.stages], groups or self.team.groups)
        return stages.run(self._mappo, self._code, context, share, summaries)

    def go_on(self, made: dict[str, Array]) -> None:
        """Advances to the next round with the tensors `made` by learning."""
        self._tensors = {name: made[name] for name in self._tensors}
        self._policy, self._number = Policy(self.spec, self.team, self._tensors), self._number + 1


def networks(context: Context[PpoConfig]) -> tuple[Layers, Layers]:
    """Widths from input to output of a policy and of a critic."""
    (kind,) = context.spec.classes
    hidden = tuple(context.config.hidden)
    state = context.batch.state.shape[-1]
    return (kind.observation_size, *hidden, kind.actions), (state, *hidden, 1)


def products(layers: Layers, rows: int) -> list[Shape]:
    """The products of one forward and backward pass, without the gradient with respect to the inputs."""
    pairs = list(itertools.pairwise(layers))
    outputs = [(rows, i, o) for i, o in pairs]
    slopes = [(rows, o, i) for i, o in pairs[1:]]
    gradients = [(i, rows, o) for i, o in pairs]
    return outputs + slopes + gradients


def round_products(context: Context[PpoConfig]) -> list[tuple[Shape, int]]:
    """All products of a round with their counts. `postprocess` runs the critics on every row and cut."""
    agents, config = len(context.spec.agents), context.config
    rows = context.batch.ended.size
    policy, critic = networks(context)
    parts = config.num_minibatches or FEWEST_MINIBATCHES
    passes = agents * config.epochs * parts
    training = [*products(policy, rows // parts), *products(critic, rows // parts)]
    valued = rows + len(context.batch.cut)
    values = [((valued, i, o), agents) for i, o in itertools.pairwise(critic)]
    return [(shape, passes) for shape in training] + values


def flops(shapes: list[tuple[Shape, int]]) -> float:
    """Multiplications and additions."""
    return float(sum(2 * rows * inner * columns * times for (rows, inner, columns), times in shapes))


def products_alone(
    shapes: list[tuple[Shape, int]], clock: Callable[[], float] = time.perf_counter
) -> Callable[[], float]:
    """Prepares the products' operands and returns a function that times the products alone, by a clock in seconds."""
    rng = np.random.default_rng(1)
    prepared = []
    for (rows, inner, columns), times in shapes:
        left, right = (rng.standard_normal(shape, dtype=np.float32) for shape in ((rows, inner), (inner, columns)))
        prepared.append((left, right, np.empty((rows, columns), np.float32), times))

    def measure(few: int = 200) -> float:
        """Milliseconds of all products of a round, extrapolated from at most `few` of each shape."""
        total = 0.0
        for left, right, out, times in prepared:
            count = min(times, few)
            began = clock()
            for _ in range(count):
                np.matmul(left, right, out=out)
            total += (clock() - began) / count * times
        return total * 1000

    return measure


def large_product() -> float:
    """GFLOP/s of a large square product: the core's peak."""
    square = np.ones((LARGE, LARGE), np.float32)
    began = time.perf_counter()
    square @ square
    return 2 * LARGE**3 / (time.perf_counter() - began) / 1e9


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learner", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--hidden", type=int, default=HIDDEN, help="units of each of the two hidden layers")
    parser.add_argument("--engine", choices=get_args(EngineName), default="auto", help="what computes networks")
    args = parser.parse_args()
    round_ = Round(hidden=args.hidden, engine=args.engine)
    context = round_.sample()
    shapes = round_products(context)
    alone = products_alone(shapes)
    record = Record(flops(shapes), sum(Network(layers).parameters for layers in networks(context)))
    round_.go_on(round_.learn(context).tensors)
    for _ in range(args.repetitions):
        began = time.perf_counter()
        context = round_.sample()
        sampled = time.perf_counter()
        round_.go_on(round_.learn(context).tensors)
        record.sampling_ms.append((sampled - began) * 1000)
        record.learning_ms.append((time.perf_counter() - sampled) * 1000)
        record.products_ms.append(alone())
        record.large_gflops.append(large_product())
    print(json.dumps(asdict(record)))


if __name__ == "__main__":
    main()
