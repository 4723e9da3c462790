"""MAPPO in one plain loop without functions, messages and storage: the baseline for the system's speed and returns.

Environment and actors are the system's own numpy code; the learner is an independent implementation in torch with
automatic differentiation. The agents' separate networks are stacked in batched products, the fastest way in plain torch
at this size (separate modules take at least a quarter longer).
"""

import argparse
import json
import time
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from functions.environments.base import EnvSpec, EnvTask, FloatArray, VectorEnvironment
from functions.environments.registry import make
from functions.nn.batched_acting import BatchedNetwork
from functions.nn.discrete import draw
from functions.nn.layers import Linear, Tanh
from functions.policies import as_environment_actions
from functions.randomness import generator

NUM_ENVS, HIDDEN = 64, 64
EPOCHS, MINIBATCHES = 4, 8
LEARNING_RATE, EPSILON, MAX_GRAD_NORM = 1e-3, 1e-5, 10.0
GAMMA, LAMBDA = 0.9, 0.95
CLIP, ENTROPY, VALUE_CLIP, HUBER = 0.2, 0.01, 0.2, 10.0
NORMALISER_MEMORY, LEAST_VARIANCE = 0.99, 1e-2
EVALUATION_EPISODES = 320
TARGETS = (-46.0, -36.0)


class Networks:
    """N separate perceptrons with two tanh layers: weights ``[N, in, out]``, biases ``[N, 1, out]``."""

    def __init__(self, count: int, inputs: int, outputs: int, output_gain: float) -> None:
        self.weights, self.biases = [], []
        hidden = float(np.sqrt(2.0))
        shapes = ((inputs, HIDDEN, hidden), (HIDDEN, HIDDEN, hidden), (HIDDEN, outputs, output_gain))
        for rows, columns, gain in shapes:
            drawn = [nn.init.orthogonal_(torch.empty(rows, columns), gain) for _ in range(count)]
            self.weights.append(nn.Parameter(torch.stack(drawn)))
            self.biases.append(nn.Parameter(torch.zeros(count, 1, columns)))
        self.parameters = [*self.weights, *self.biases]

    def __call__(self, x: Tensor) -> Tensor:
        """``[N, rows, in] -> [N, rows, out]``."""
        *inner, (weight, bias) = zip(self.weights, self.biases, strict=True)
        for inner_weight, inner_bias in inner:
            x = torch.baddbmm(inner_bias, x, inner_weight).tanh_()
        return torch.baddbmm(bias, x, weight)

    def cap_gradients(self) -> None:
        """Scales each network's gradient to a norm of at most `MAX_GRAD_NORM`."""
        gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        norms = torch.stack([torch.linalg.vector_norm(gradient, dim=(1, 2)) for gradient in gradients])
        scale = (MAX_GRAD_NORM / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp_(max=1.0)[:, None, None]
        for gradient in gradients:
            gradient.mul_(scale)

    def in_numpy(self) -> BatchedNetwork:
        """The same networks for actors; the arrays share memory with the parameters."""
        weights, biases = (tuple(p.detach().numpy() for p in part) for part in (self.weights, self.biases))
        layers = [layer for parameters in zip(weights, biases, strict=True) for layer in (Linear(*parameters), Tanh())]
        return BatchedNetwork(layers[:-1])


@dataclass(frozen=True)
class Episodes:
    """One episode in E environments: `observations` ``[N, T + 1, E, F]``, the others ``[N, T, E]``."""

    observations: FloatArray
    actions: NDArray[np.int64]
    log_probability: FloatArray
    rewards: FloatArray


class Normaliser:
    """Running mean and spread of value targets, one per agent."""

    def __init__(self, agents: int) -> None:
        self._sums = np.zeros((2, agents))
        self._weight = 0.0
        self.centre, self.scale = np.zeros((agents, 1, 1)), np.ones((agents, 1, 1))

    def update(self, targets: NDArray[np.float64]) -> None:
        """Updates the statistics with ``targets [N, T, E]``."""
        new = np.stack([targets.mean(axis=(1, 2)), np.square(targets).mean(axis=(1, 2))])
        self._sums = NORMALISER_MEMORY * self._sums + (1 - NORMALISER_MEMORY) * new
        self._weight = NORMALISER_MEMORY * self._weight + (1 - NORMALISER_MEMORY)
        mean, square = (self._sums / self._weight)[:, :, None, None]
        self.centre, self.scale = mean, np.sqrt(np.maximum(square - mean**2, LEAST_VARIANCE))


class Learner:
    """Policies, critics and their optimiser."""

    def __init__(self, spec: EnvSpec) -> None:
        (kind,) = spec.classes
        agents = len(spec.agents)
        self.policy = Networks(agents, kind.observation_size, kind.actions, output_gain=0.01)
        self.critic = Networks(agents, agents * kind.observation_size, 1, output_gain=1.0)
        self._normaliser = Normaliser(agents)
        parameters = [*self.policy.parameters, *self.critic.parameters]
        self._adam = torch.optim.Adam(parameters, lr=LEARNING_RATE, eps=EPSILON, fused=True)

    def update(self, episodes: Episodes) -> None:
        """All epochs on one round's episodes."""
        agents, steps, num_envs = episodes.rewards.shape
        rows = steps * num_envs
        observation = torch.from_numpy(episodes.observations[:, :-1].reshape(agents, rows, -1))
        state = torch.from_numpy(episodes.observations.transpose(1, 2, 0, 3).reshape((steps + 1) * num_envs, -1))
        with torch.no_grad():
            old = self.critic(state.expand(agents, -1, -1))[..., 0]
        advantages, targets = self._advantages(episodes.rewards, old.numpy().reshape(agents, steps + 1, num_envs))
        columns = [torch.from_numpy(a.reshape(agents, rows)) for a in (episodes.log_probability, advantages, targets)]
        actions = torch.from_numpy(episodes.actions.reshape(agents, rows, 1))
        numbers = torch.stack([*columns, old[:, :rows]])
        for _ in range(EPOCHS):
            order = torch.randperm(rows)
            shuffled = (
                observation[:, order].chunk(MINIBATCHES, dim=1),
                state[order].chunk(MINIBATCHES),
                actions[:, order].chunk(MINIBATCHES, dim=1),
                numbers[:, :, order].chunk(MINIBATCHES, dim=2),
            )
            for minibatch in zip(*shuffled, strict=True):
                self._step(*minibatch)

    def _advantages(self, rewards: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Advantages and targets ``[N, T, E]``, both normalised; episodes are truncated at T, so the last value is
        bootstrapped."""
        values = raw * self._normaliser.scale + self._normaliser.centre
        residuals = rewards + GAMMA * values[:, 1:] - values[:, :-1]
        advantages = np.empty_like(residuals)
        advantage = np.zeros_like(residuals[:, 0])
        for t in reversed(range(residuals.shape[1])):
            advantage = residuals[:, t] + GAMMA * LAMBDA * advantage
            advantages[:, t] = advantage
        targets = advantages + values[:, :-1]
        self._normaliser.update(targets)
        targets = (targets - self._normaliser.centre) / self._normaliser.scale
        advantages -= advantages.mean(axis=(1, 2), keepdims=True)
        advantages /= advantages.std(axis=(1, 2), keepdims=True) + 1e-8
        return advantages.astype(np.float32), targets.astype(np.float32)

    def _step(self, observation: Tensor, state: Tensor, actions: Tensor, numbers: Tensor) -> None:
        old_log_probability, advantage, target, old_value = numbers
        log_p = torch.log_softmax(self.policy(observation), dim=-1)
        ratio = (log_p.gather(-1, actions)[..., 0] - old_log_probability).exp()
        surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
        negative_entropy = (log_p.exp() * log_p).sum(-1)
        value = self.critic(state.expand(len(advantage), -1, -1))[..., 0]
        kept = old_value + (value - old_value).clamp(-VALUE_CLIP, VALUE_CLIP)
        # The Huber loss grows with the distance, so the larger distance has the larger loss.
        distance = torch.maximum((value - target).abs(), (kept - target).abs())
        value_loss = nn.functional.huber_loss(distance, torch.zeros_like(distance), delta=HUBER, reduction="none")
        # A mean over rows per network; networks share no parameters, so the sum over networks trains each separately.
        loss = (ENTROPY * negative_entropy - surrogate + value_loss).mean(dim=1).sum()
        self._adam.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.policy.cap_gradients()
        self.critic.cap_gradients()
        self._adam.step()


def play(environment: VectorEnvironment, actors: BatchedNetwork, rng: np.random.Generator) -> Episodes:
    """One sampled episode in every environment."""
    spec, num_envs = environment.spec, environment.num_envs
    shape = (len(spec.agents), spec.horizon, num_envs)
    observations = np.empty((shape[0], shape[1] + 1, num_envs, spec.classes[0].observation_size), np.float32)
    actions, log_probability = np.empty(shape, np.int64), np.empty(shape, np.float32)
    rewards = np.empty(shape, np.float32)
    uniforms = rng.random((spec.horizon, shape[0], num_envs), dtype=np.float32)
    seen = environment.reset(rng).values[0].swapaxes(0, 1)
    for t in range(spec.horizon):
        observations[:, t] = seen
        chosen, log_probability[:, t] = draw(actors.outputs(seen, None)[0], uniforms[t])
        actions[:, t] = chosen
        step = environment.step(as_environment_actions((chosen,)))
        rewards[:, t] = step.rewards.T
        seen = (step.final or step.observation).values[0].swapaxes(0, 1)
    observations[:, -1] = seen
    return Episodes(observations, actions, log_probability, rewards)


def greedy_return(environment: VectorEnvironment, actors: BatchedNetwork, rng: np.random.Generator) -> float:
    """Mean over environments of the undiscounted return of one greedy episode, summed over agents."""
    total = 0.0
    seen = environment.reset(rng)
    for _ in range(environment.spec.horizon):
        actions = actors.outputs(seen.values[0].swapaxes(0, 1), None)[0].argmax(axis=-1)
        step = environment.step(as_environment_actions((actions,)))
        total += float(step.rewards.sum())
        seen = step.observation
    return total / environment.num_envs


@dataclass(frozen=True)
class Point:
    """The greedy return of the policies after `env_steps` steps and `seconds` of training."""

    env_steps: int
    seconds: float
    greedy_return: float


@dataclass
class Record:
    """A run: training time excludes evaluation; the rate also excludes the first round with torch's warm-up."""

    seed: int
    env_steps: int = 0
    seconds: float = 0.0
    env_steps_per_second: float = 0.0
    seconds_to: dict[str, float | None] = field(default_factory=dict)
    points: list[Point] = field(default_factory=list)


def train(task: EnvTask, seed: int, steps: int, evaluate_every: int) -> Record:
    """Trains for at least `steps` environment steps; evaluates every `evaluate_every` rounds, never if that is 0."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    environment, arena = make(task, NUM_ENVS), make(task, EVALUATION_EPISODES)
    learner = Learner(environment.spec)
    actors = learner.policy.in_numpy()
    record = Record(seed)
    rng = generator(seed, "plain loop")
    per_round = NUM_ENVS * environment.spec.horizon
    first = 0.0
    for round_ in range(1, -(-steps // per_round) + 1):
        began = time.perf_counter()
        learner.update(play(environment, actors, rng))
        record.seconds += time.perf_counter() - began
        record.env_steps += per_round
        first = first or record.seconds
        if evaluate_every and round_ % evaluate_every == 0:
            reached = greedy_return(arena, actors, generator(seed, round_, "evaluation"))
            record.points.append(Point(record.env_steps, record.seconds, reached))
    if record.env_steps > per_round:
        record.env_steps_per_second = (record.env_steps - per_round) / (record.seconds - first)
    for target in TARGETS:
        times = (point.seconds for point in record.points if point.greedy_return >= target)
        record.seconds_to[f"{target:g}"] = next(times, None)
    return record


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plain_loop", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=320_000, help="environment steps")
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--eval-every", type=int, default=10, help="rounds between evaluations; 0: none")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    args = parser.parse_args()
    record = train(EnvTask(name="mpe/simple_spread", agents=args.agents), args.seed, args.steps, args.eval_every)
    if args.json:
        print(json.dumps(asdict(record)))
        return
    for point in record.points:
        print(f"{point.env_steps:>9,} steps  {point.seconds:6.2f} s  greedy return {point.greedy_return:7.2f}")
    reached = ", ".join(
        f"{target} after {'no time' if at is None else f'{at:.2f} s'}" for target, at in record.seconds_to.items()
    )
    print(f"{record.env_steps_per_second:,.0f} environment steps/s; {reached}")


if __name__ == "__main__":
    main()
