"""Write an environment: two agents each see one bit. Both are paid when the number of raised hands is the parity of the
bits. All environments are stepped together, as arrays. `check` tries the promises of the protocol."""

import numpy as np

import marless
from marless.environments import AgentClass, EnvSpec, Observation, Step, check

SPEC = EnvSpec(agents=("left", "right"), classes=(AgentClass("agent", (0, 1), 2, 2),), horizon=4)


class Parity:
    """E environments. An episode has four steps with fresh bits in each."""

    spec = SPEC

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, rng):
        self.rng, self.t = rng, 0
        return self._observation()

    def step(self, actions):
        """Pays where the number of raised hands is the parity of the bits, and resets after the fourth step."""
        odd, hands = self.bits.sum(axis=1) % 2, actions[0].sum(axis=1)
        rewards = np.repeat((hands == odd)[:, None].astype(float), 2, axis=1) / 2
        self.t += 1
        ended = np.full(self.num_envs, self.t == SPEC.horizon)
        observation = self._observation()
        self.t %= SPEC.horizon
        nobody = np.zeros((self.num_envs, 2), bool)
        final = observation if ended.all() else None
        return Step(observation, rewards, terminated=nobody, truncated=ended, ended=ended, final=final)

    def close(self):
        pass

    def _observation(self):
        self.bits = self.rng.integers(2, size=(self.num_envs, 2))
        values = np.stack([self.bits, np.full_like(self.bits, self.t)], axis=-1).astype(np.float32)
        return Observation((values,), alive=np.ones((self.num_envs, 2), bool))


def make(task, num_envs):
    """The factory that the entry point names."""
    return Parity(num_envs)


def main(rounds: int = 60) -> None:
    check(Parity)
    run = marless.train(task={"name": "parity"}, stop={"rounds": rounds}, actors={"num_envs": 32})
    print(f"{run.summary.final_return.mean:.2f}; 3 is the best for agents that see one bit each, 2 for blind ones")


if __name__ == "__main__":
    main()
