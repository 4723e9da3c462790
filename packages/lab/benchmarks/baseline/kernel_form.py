"""The baseline in our own kernels: the actor and the learner of `marless train` in one process, without functions.

A run has the weights of `marless train` with the same seed and settings.
"""

from typing import Any

from numpy.typing import NDArray

from benchmarks.baseline import loop
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.opponents import initial_team
from marless.functions import codec
from marless.functions.actor.rollout import collect
from marless.functions.algorithms import registry as algorithms
from marless.functions.algorithms.specification import Share
from marless.functions.algorithms.stage import Context
from marless.functions.data import batch
from marless.functions.environments import registry as environments
from marless.functions.evaluator.handler import play
from marless.functions.learner import stages
from marless.functions.learner.update import as_stored
from marless.functions.policies import Policy
from marless.functions.randomness import generator


class KernelForm:
    """Policies and learner state of a run with these settings."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._environment = environments.make(config.task, config.actors.num_envs)
        self._spec = self._environment.spec
        self._team = initial_team(config, self._spec, None)
        self._algorithm = algorithms.algorithm(config.algorithm.name)
        self._code = algorithms.implementation(self._algorithm)
        self._settings = config.algorithm.resolved(self._spec)
        self._share = Share([stage.name for stage in self._algorithm.stages], self._team.learning)
        self.tensors: dict[str, NDArray[Any]] = {}
        for group in self._team.learning:
            self.tensors |= self._code.initialise(self._spec, self._team, self._settings, config.seed, group)

    def round(self, number: int, progress: float) -> None:
        """See `loop.Form`."""
        spec, seed = self._spec, self._config.seed
        rollout = collect(self._environment, self._policy(), spec.horizon, seed, number, rollout=0)
        context = Context(
            spec=spec,
            team=self._team,
            config=self._settings.at(progress),
            seed=seed,
            round=number,
            batch=batch.join(spec, rollout.tensors, (0,)),
            tensors=self.tensors,
        )
        new = stages.run(self._algorithm, self._code, context, self._share).tensors
        self.tensors = as_stored({name: new[name] for name in self.tensors})

    def greedy_return(self, number: int, episodes: int) -> float:
        """See `loop.Form`."""
        arena = environments.make(self._config.task, episodes)
        rng = generator(self._config.seed, number, "evaluation")
        played = play(arena, self._policy(), rng, greedy=True, count=episodes)
        return float(played.agent_returns().sum(axis=1).mean())

    def weights_sha256(self) -> str:
        """See `loop.Form`."""
        return codec.tensors_sha256(self.tensors)

    def _policy(self) -> Policy:
        return Policy(self._spec, self._team, self.tensors)


def main() -> None:
    """Train by the command line."""
    loop.run(loop.parser("kernel_form", __doc__).parse_args(), KernelForm)


if __name__ == "__main__":
    main()
