"""Finished episodes graded by a resource, for any environment: `task.judge`.

The question about an episode is JSON: the `task`'s name, its `agents`, and the `steps`. Each step has the agents'
`observations`, `actions` and `rewards`, by agent. `last` are the observations after the last step. Agents that are out
have null. The answer is JSON too: a number, which every agent gets, or a list with a number for each agent. It is added
to the rewards of the episode's last step, of agents that took part in it.
"""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marless.functions.encoding import JsonDecoder, Undecodable, to_json
from marless.functions.environments.base import (
    ActionArray,
    EnvironmentFault,
    Observation,
    RewardArray,
    Step,
    VectorEnvironment,
)

if TYPE_CHECKING:
    from marless.functions.resources.port import Resources

_GRADES = JsonDecoder[float | list[float]](float | list[float])
# Rewards are stored in single precision.
_LARGEST = float(np.finfo(np.float32).max)


class Judged:
    """E environments. Episodes that end in the same step are graded in parallel."""

    def __init__(self, environment: VectorEnvironment, task: str, judge: str, resources: "Resources") -> None:
        """`judge` is the resource that grades episodes of the env task `task`."""
        self.environment, self.spec, self.num_envs = environment, environment.spec, environment.num_envs
        self._task, self._judge, self._resources = task, judge, resources

    def reset(self, rng: np.random.Generator) -> Observation:
        """The environment's first observations."""
        self._observation = self.environment.reset(rng)
        # The recorded steps so far, of all environments, and where each one's episode began.
        self._steps: list[tuple[Observation, tuple[ActionArray, ...], RewardArray]] = []
        self._begun = np.zeros(self.num_envs, int)
        return self._observation

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """The environment's step, with grades among the rewards of episodes that end. Raises `ResourceFault` if a grade
        is missing, and `EnvironmentFault` for an invalid grade."""
        before = self._observation
        step = self.environment.step(actions)
        self._steps.append((before, tuple(part.copy() for part in actions), step.rewards))
        self._observation = step.observation
        rows = np.flatnonzero(step.ended)
        if not rows.size:
            return step
        rewards = step.rewards.copy()
        rewards[rows] += np.where(before.alive[rows], self._grades(rows, step), 0.0)
        self._begun[rows] = len(self._steps)
        self._forget()
        return dataclasses.replace(step, rewards=rewards)

    def close(self) -> None:
        """Closes the environment."""
        self.environment.close()

    def _forget(self) -> None:
        oldest = int(self._begun.min())
        del self._steps[:oldest]
        self._begun -= oldest

    def _grades(self, rows: Sequence[int] | Any, step: Step) -> RewardArray:
        """``[rows, N]``."""
        questions = [self._question(row, step.observation if step.final is None else step.final) for row in rows]
        answers = self._resources.call(self._judge, questions)
        return np.array([self._grade(*exchange) for exchange in zip(questions, answers, strict=True)])

    def _question(self, row: int, last: Observation) -> bytes:
        steps = [
            {
                "observations": self._by_agent(before.values, before, row),
                "actions": self._by_agent(actions, before, row),
                "rewards": rewards[row].tolist(),
            }
            for before, actions, rewards in self._steps[self._begun[row] :]
        ]
        episode = {"task": self._task, "agents": self.spec.agents, "steps": steps}
        return to_json(episode | {"last": self._by_agent(last.values, last, row)})

    def _by_agent(self, parts: Sequence[Any], observation: Observation, row: int) -> list[Any]:
        """Arrays per class ``[E, n, ...]`` of one environment as numbers by agent, or None for agents that are out."""
        numbers: list[Any] = [None] * len(self.spec.agents)
        for kind, part in zip(self.spec.classes, parts, strict=True):
            for place, agent in enumerate(kind.agents):
                numbers[agent] = part[row, place].tolist() if observation.alive[row, agent] else None
        return numbers

    def _grade(self, question: bytes, answer: bytes) -> list[float]:
        count = len(self.spec.agents)
        try:
            grade = _GRADES.decode(answer)
        except Undecodable as error:
            raise self._fault(question, f"its answer is no grade, a number or a list of {count}: {error}") from error
        numbers = grade if isinstance(grade, list) else [grade] * count
        if len(numbers) != count:
            raise self._fault(question, f"it answered {len(numbers)} numbers for {count} agents")
        if unfit := [number for number in numbers if not abs(number) <= _LARGEST]:
            raise self._fault(question, f"it answered {unfit[0]:g}; the largest grade is {_LARGEST:.1e}")
        return numbers

    def _fault(self, question: bytes, problem: str) -> EnvironmentFault:
        key = self._resources.kept_as(self._judge, question)
        advice = f"; the answer is kept: delete {key}, and the resource is asked again" if key else ""
        return EnvironmentFault(f"task.judge: resource {self._judge!r}: {problem}{advice}")
