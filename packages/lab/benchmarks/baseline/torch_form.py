"""The baseline in torch: MAPPO in one process with automatic differentiation.

The environment is the system's own. Networks are stacked in batched products. Their first weights and the random
numbers of environments and actions equal those in `marless train`. The learner is an independent implementation.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.baseline import loop
from benchmarks.baseline.networks import ACTIVATIONS, Networks
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.opponents import initial_team
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.ppo.specs import PpoConfig
from marless.functions.environments.base import FloatArray, VectorEnvironment
from marless.functions.environments.registry import make
from marless.functions.nn.batched_acting import BatchedNetwork
from marless.functions.nn.discrete import draw
from marless.functions.policies import as_environment_actions, draws
from marless.functions.randomness import generator
from marless.functions.setting_limits import FEWEST_MINIBATCHES

LEAST_VARIANCE = 1e-2


@dataclass(frozen=True)
class Episodes:
    """One episode in E environments: `observations` ``[N, T + 1, E, F]``, the others ``[N, T, E]``."""

    observations: FloatArray
    actions: NDArray[np.int64]
    log_probability: FloatArray
    rewards: FloatArray


class Normaliser:
    """Running mean and spread of value targets, one per agent."""

    def __init__(self, agents: int, memory: float) -> None:
        self._memory = memory
        self._sums = np.zeros((2, agents))
        self._weight = 0.0
        self.centre, self.scale = np.zeros((agents, 1, 1)), np.ones((agents, 1, 1))

    def update(self, targets: NDArray[np.float64]) -> None:
        """Update the statistics with ``targets [N, T, E]``."""
        new = np.stack([targets.mean(axis=(1, 2)), np.square(targets).mean(axis=(1, 2))])
        self._sums = self._memory * self._sums + (1 - self._memory) * new
        self._weight = self._memory * self._weight + (1 - self._memory)
        mean, square = (self._sums / self._weight)[:, :, None, None]
        self.centre, self.scale = mean, np.sqrt(np.maximum(square - mean**2, LEAST_VARIANCE))


class Learner:
    """Policies, critics and their optimiser. `adam` is `fused` or `foreach`."""

    def __init__(self, config: PpoConfig, policy: Networks, critic: Networks, adam: str = "fused") -> None:
        self.policy, self.critic, self.config = policy, critic, config
        self._normaliser = Normaliser(len(policy.weights[0]), config.value_decay)
        groups = [{"params": network.parameters} for network in (policy, critic)]
        self._adam = torch.optim.Adam(groups, eps=config.adam_eps, **{adam: True})  # type: ignore[arg-type]

    def update(self, episodes: Episodes, progress: float) -> None:
        """Train all epochs on one round's episodes. `progress` is the share of the run before it."""
        config = self.config.at(progress)
        for group, rate in zip(self._adam.param_groups, (config.lr, config.critic_lr or config.lr), strict=True):
            group["lr"] = rate
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
        parts = config.num_minibatches or FEWEST_MINIBATCHES
        for _ in range(config.epochs):
            order = torch.randperm(rows)
            shuffled = (
                observation[:, order].chunk(parts, dim=1),
                state[order].chunk(parts),
                actions[:, order].chunk(parts, dim=1),
                numbers[:, :, order].chunk(parts, dim=2),
            )
            for minibatch in zip(*shuffled, strict=True):
                self._step(config, *minibatch)

    def _advantages(self, rewards: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return advantages and targets ``[N, T, E]``, both normalised.

        Episodes are truncated at T, so the last value is bootstrapped.
        """
        gamma, decay = self.config.discount, self.config.gae_lambda
        values = raw * self._normaliser.scale + self._normaliser.centre
        residuals = rewards + gamma * values[:, 1:] - values[:, :-1]
        advantages = np.empty_like(residuals)
        advantage = np.zeros_like(residuals[:, 0])
        for t in reversed(range(residuals.shape[1])):
            advantage = residuals[:, t] + gamma * decay * advantage
            advantages[:, t] = advantage
        targets = advantages + values[:, :-1]
        self._normaliser.update(targets)
        targets = (targets - self._normaliser.centre) / self._normaliser.scale
        advantages -= advantages.mean(axis=(1, 2), keepdims=True)
        advantages /= advantages.std(axis=(1, 2), keepdims=True) + 1e-8
        return advantages.astype(np.float32), targets.astype(np.float32)

    def _step(self, config: PpoConfig, observation: Tensor, state: Tensor, actions: Tensor, numbers: Tensor) -> None:
        old_log_probability, advantage, target, old_value = numbers
        log_p = torch.log_softmax(self.policy(observation), dim=-1)
        ratio = (log_p.gather(-1, actions)[..., 0] - old_log_probability).exp()
        surrogate = torch.minimum(
            ratio * advantage, ratio.clamp(1 - config.clip_coef, 1 + config.clip_coef) * advantage
        )
        negative_entropy = (log_p.exp() * log_p).sum(-1)
        value = self.critic(state.expand(len(advantage), -1, -1))[..., 0]
        kept = old_value + (value - old_value).clamp(-config.value_clip, config.value_clip)
        # The Huber loss grows with the distance, so the larger distance has the larger loss.
        distance = torch.maximum((value - target).abs(), (kept - target).abs())
        value_loss = nn.functional.huber_loss(
            distance, torch.zeros_like(distance), delta=config.huber_delta, reduction="none"
        )
        # A mean over rows per network. Networks share no parameters, so the sum over networks trains each separately.
        loss = (config.ent_coef * negative_entropy - surrogate + value_loss).mean(dim=1).sum()
        self._adam.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.policy.cap_gradients(config.max_grad_norm)
        self.critic.cap_gradients(config.max_grad_norm)
        self._adam.step()


def play(environment: VectorEnvironment, actors: BatchedNetwork, seed: int, number: int) -> Episodes:
    """Return one sampled episode in every environment, with the random numbers of round `number`."""
    spec, num_envs = environment.spec, environment.num_envs
    shape = (len(spec.agents), spec.horizon, num_envs)
    observations = np.empty((shape[0], shape[1] + 1, num_envs, spec.classes[0].observation_size), np.float32)
    actions, log_probability = np.empty(shape, np.int64), np.empty(shape, np.float32)
    rewards = np.empty(shape, np.float32)
    (uniforms,) = draws(spec, spec.horizon, num_envs, generator(seed, number, "actions", 0))
    seen = environment.reset(generator(seed, number, "environment", 0)).values[0].swapaxes(0, 1)
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
    """Return the mean over environments of the undiscounted return of one greedy episode, summed over agents."""
    total = 0.0
    seen = environment.reset(rng)
    for _ in range(environment.spec.horizon):
        actions = actors.outputs(seen.values[0].swapaxes(0, 1), None)[0].argmax(axis=-1)
        step = environment.step(as_environment_actions((actions,)))
        total += float(step.rewards.sum())
        seen = step.observation
    return total / environment.num_envs


class TorchForm:
    """Environment, actors and learner with the first weights of a run with these settings."""

    def __init__(self, config: RunConfig, activation: str = "tanh", adam: str = "fused", threads: int = 1) -> None:
        torch.set_num_threads(threads)
        torch.manual_seed(config.seed)
        self._config, self._environment = config, make(config.task, config.actors.num_envs)
        settings, spec = config.algorithm.resolved(self._environment.spec), self._environment.spec
        if not isinstance(settings, PpoConfig):
            raise TypeError(f"the baseline learns with PPO, and the algorithm is {settings.name}")
        team, code = initial_team(config, spec, None), algorithms.implementation(algorithms.algorithm(settings.name))
        first: dict[str, NDArray[np.float32]] = {}
        for group in team.learning:
            first |= code.initialise(spec, team, settings, config.seed, group)
        policy, critic = (Networks.of(first, part, len(spec.agents), activation) for part in ("policy", "critic"))
        self.learner = Learner(settings, policy, critic, adam)
        self.actors = policy.in_numpy()

    def round(self, number: int, progress: float) -> None:
        """See `loop.Form`."""
        self.learner.update(play(self._environment, self.actors, self._config.seed, number), progress)

    def greedy_return(self, number: int, episodes: int) -> float:
        """See `loop.Form`."""
        rng = generator(self._config.seed, number, "evaluation")
        return greedy_return(make(self._config.task, episodes), self.actors, rng)

    def weights_sha256(self) -> str:
        """See `loop.Form`."""
        return ""


def main() -> None:
    """Train by the command line."""
    parser = loop.parser("torch_form", __doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--activation", choices=ACTIVATIONS, default="tanh", help="of hidden layers")
    parser.add_argument("--adam", choices=("fused", "foreach"), default="fused", help="the optimiser's code")
    options = parser.parse_args()
    loop.run(options, lambda config: TorchForm(config, options.activation, options.adam, options.threads))


if __name__ == "__main__":
    main()
