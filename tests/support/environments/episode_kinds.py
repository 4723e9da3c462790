"""An env task with a few kinds of episodes, each with its length, its agents' returns, and whether it is won.

`options.kinds`: ``"length:return_a:return_b:won, ..."``. With `options.first`, environment e of a rollout plays the
kinds in the digits of the number ``first + e``. So all numbers together are all equally likely sequences of kinds.
Without it the generator draws kinds uniformly. Rewards come with the last step.
"""

import numpy as np

from marless.functions.environments.base import AgentClass, EnvSpec, Observation, Step


class EpisodeKinds:
    def __init__(self, kinds, first, horizon, num_envs):
        self.kinds, self.first, self.num_envs = np.array(kinds, float), first, num_envs
        self.spec = EnvSpec(
            ("a", "b"), (AgentClass("x", (0, 1), 1, 2),), horizon=horizon or int(self.kinds[:, 0].max())
        )

    def reset(self, rng):
        self.rng, self.played = rng, np.zeros(self.num_envs, int)
        self.at, self.kind = np.zeros(self.num_envs), np.zeros(self.num_envs, int)
        self._begin(np.ones(self.num_envs, bool))
        return self._seen()

    def step(self, actions):
        self.at += 1
        lengths, returns, won = self.kinds[self.kind, 0], self.kinds[self.kind, 1:3], self.kinds[self.kind, 3]
        ended = self.at == lengths
        rewards, final = returns * ended[:, None], self._seen()
        self._begin(ended)
        terminated, last = np.repeat(ended[:, None], 2, axis=1), final if ended.any() else None
        return Step(self._seen(), rewards, terminated, np.zeros_like(ended), ended, last, {"win": won.copy()})

    def close(self):
        pass

    def _begin(self, rows):
        self.at[rows] = 0
        drawn = self.rng.integers(len(self.kinds), size=self.num_envs)
        if self.first is not None:
            drawn = (self.first + np.arange(self.num_envs)) // len(self.kinds) ** self.played % len(self.kinds)
        self.kind[rows] = drawn[rows]
        self.played[rows] += 1

    def _seen(self):
        return Observation((np.zeros((self.num_envs, 2, 1), np.float32),), np.ones((self.num_envs, 2), bool))


def make(task, num_envs):
    kinds = [[float(number) for number in kind.split(":")] for kind in task.options["kinds"].split(",")]
    return EpisodeKinds(kinds, task.options.get("first"), task.options.get("horizon"), num_envs)
