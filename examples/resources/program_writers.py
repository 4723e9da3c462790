"""Two agents write a program together, and a judge runs it: one writes operands, the other operators.

Both see the program's target. After three steps it is an expression of `x`, such as ``x * x + 1``. The environment pays
nothing. A judge pays when the episode is over, see `task.judge` in judge.toml and service.toml.
"""

import numpy as np
from gymnasium.spaces import Box, Discrete
from pettingzoo import ParallelEnv

from marless.functions.encoding import from_json, to_json
from marless.functions.resources.code_judge import share_of_lines
from marless.functions.resources.serving.sandbox import Sandbox

OPERANDS, OPERATORS, STEPS = ("x", "1", "2", "3"), ("+", "-", "*"), 3
# Targets of programs, one of these in every episode.
TARGETS = (
    *(lambda x: x * x + 1, lambda x: 2 * x + 3, lambda x: x * x - x, lambda x: 3 - x * 2),
    *(lambda x: x**3, lambda x: x - 2, lambda x: 1 - x * x, lambda x: 3 * x - 2),
)
INPUTS = range(10)


class Writers(ParallelEnv):
    metadata = {"name": "program_writers"}  # noqa: RUF012 -- as PettingZoo has it
    possible_agents = ("operands", "operators")
    max_cycles = STEPS

    def observation_space(self, agent):
        return Box(0, 1, (len(TARGETS) + STEPS,), np.float32)

    def action_space(self, agent):
        return Discrete(len(OPERANDS if agent == "operands" else OPERATORS))

    def reset(self, seed=None, options=None):
        self.agents, self.written = [*self.possible_agents], 0
        self.target = np.random.default_rng(seed).integers(len(TARGETS))
        return self._observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.written += 1
        agents, over = self.agents, self.written == STEPS
        self.agents = [] if over else agents
        nothing, ends = dict.fromkeys(agents, 0.0), dict.fromkeys(agents, over)
        return self._observations(), nothing, ends, dict.fromkeys(agents, False), {agent: {} for agent in agents}

    def _observations(self):
        seen = np.zeros(len(TARGETS) + STEPS, np.float32)
        seen[self.target] = seen[len(TARGETS) + min(self.written, STEPS - 1)] = 1
        return {agent: seen.copy() for agent in self.possible_agents}


def make() -> ParallelEnv:
    return Writers()


def grade(question: bytes, sandbox: Sandbox) -> bytes:
    """Return the team's reward: the share of inputs with the right output of a finished episode's program."""
    target, program = program_of(from_json(question, dict))
    expected = "\n".join(str(target(x)) for x in INPUTS)
    return to_json(share_of_lines(program, " ".join(map(str, INPUTS)), expected, sandbox))


def program_of(episode: dict) -> tuple:
    """Return the target of an episode and the written program. The last operator is not needed."""
    steps = episode["steps"]
    words = [(OPERANDS[first], OPERATORS[second]) for first, second in (step["actions"] for step in steps)]
    expression = " ".join(word for pair in words for word in pair).rpartition(" ")[0]
    target = TARGETS[int(np.argmax(steps[0]["observations"][0][: len(TARGETS)]))]
    return target, f"for x in map(int, input().split()): print({expression})"
