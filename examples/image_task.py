"""Images: two agents pick apples on a grid, with a flat network and a convolutional one: marless[networks,tasks]."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

import marless

SIZE, APPLES, STEPS = 10, 4, 25
MOVES = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])


class Apples(ParallelEnv):
    metadata = {"name": "apples"}  # noqa: RUF012 -- as PettingZoo has it
    possible_agents = ("agent_0", "agent_1")

    def observation_space(self, agent):
        return Box(0, 255, (SIZE, SIZE, 3), np.uint8)

    def action_space(self, agent):
        return Discrete(len(MOVES))

    def reset(self, seed=None, options=None):
        self.rng, self.agents, self.left = np.random.default_rng(seed), [*self.possible_agents], STEPS
        cells = np.stack(np.divmod(self.rng.choice(SIZE**2, APPLES + 2, replace=False), SIZE), axis=1)
        self.at, self.apples = cells[:2], np.zeros((SIZE, SIZE), bool)
        self.apples[tuple(cells[2:].T)] = True
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions):
        """Move agent 0, then agent 1. An apple that one reaches pays 1 and grows again in a random cell."""
        agents, rewards = self.agents, {}
        for row, agent in enumerate(agents):
            self.at[row] = place = np.clip(self.at[row] + MOVES[actions[agent]], 0, SIZE - 1)
            rewards[agent] = float(self.apples[tuple(place)])
            if rewards[agent]:
                self.apples[tuple(self.rng.choice(np.argwhere(~self.apples)))], self.apples[tuple(place)] = True, False
        self.left -= 1
        self.agents, over = agents if self.left else [], dict.fromkeys(agents, self.left == 0)
        return self._seen(), rewards, dict.fromkeys(agents, False), over, {agent: {} for agent in agents}

    def _seen(self):
        seen = {agent: np.zeros((SIZE, SIZE, 3), np.uint8) for agent in self.possible_agents}
        for row, image in enumerate(seen.values()):
            image[..., 0] = 255 * self.apples
            image[(*self.at[row], 1)] = image[(*self.at[1 - row], 2)] = 255
        return seen


def main(rounds: int = 100, networks: tuple[str, ...] = ("mlp", "cnn"), seed: int = 1, **more) -> None:
    task = {"name": "pettingzoo:image_task:Apples", "options": {"horizon": STEPS}}
    more = {"sharing": {"rule": "all"}, "actors": {"num_envs": 32, "rollouts": 2}, "seed": seed} | more
    for network in networks:
        run = marless.train(task=task, algorithm={"name": "ippo", "network": network}, stop={"rounds": rounds}, **more)
        print(f"{network}: {run.summary.final_return.mean:.2f} apples an episode")


if __name__ == "__main__":
    main()
