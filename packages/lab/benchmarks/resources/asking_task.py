"""A task with environments that think, then ask a resource, in every step: `asking`, by an entry point (see `launch`).

Both times come from lognormal distributions and the rollout's generator. So a trajectory thinks and asks equally long
on every machine and at every time. Each trajectory leaves a line with its drawn and measured times.
"""

import os
import time
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.pipeline import waiting_task
from marless.environments import EnvTask, Observation, Step
from marless.functions.resources.port import Resources

# The standard deviation of the logarithms of both times.
SIGMA = 0.8


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys of `task.options`."""

    # The resource, and the file of the lines.
    resource: str
    lines: str
    # The means of a thought in seconds, and of an action's size.
    think_s: float
    size: float
    steps: int = 12
    # Draws differently from other runs of the same seed.
    salt: int = 0
    # A named pipe that holds a byte for each slot. A trajectory takes one at its start and puts it back at its end.
    tokens: str = ""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A trajectory: when it began by the monotonic clock, and its steps in their order."""

    salt: int
    began: float
    thinks_s: list[float]
    sizes: list[float]
    # From the call until the answer. The first includes the wait for a token.
    took_s: list[float]


def make(task: EnvTask, num_envs: int, resources: Resources) -> "Asking":
    """`num_envs` environments. Raises `ValueError` for wrong options."""
    return Asking(msgspec.convert(task.options, Options), num_envs, resources)


class Asking(waiting_task.Waiting):
    """Environments that are stepped together. In an evaluation, which has several, they take no time and ask no
    resource."""

    def __init__(self, options: Options, num_envs: int, resources: Resources) -> None:
        super().__init__(waiting_task.Options(horizon=options.steps), num_envs)
        self._asking, self._resources = options, resources
        self._is_trajectory = num_envs == 1
        self._slots = os.open(options.tokens, os.O_RDWR) if options.tokens and self._is_trajectory else None

    def reset(self, rng: np.random.Generator) -> Observation:
        """Begins an episode in every environment."""
        observation = super().reset(rng)
        draw = np.random.default_rng([self._asking.salt, int(rng.integers(1 << 32))])
        drawn = np.exp(SIGMA * draw.standard_normal((2, self._asking.steps)) - SIGMA**2 / 2)
        self._thinks_s, self._sizes = self._asking.think_s * drawn[0], self._asking.size * drawn[1]
        self._took_s: list[float] = []
        self._began = time.monotonic()
        if self._slots is not None:
            os.read(self._slots, 1)
        self._waited_s = time.monotonic() - self._began
        return observation

    def step(self, actions: tuple[np.ndarray, ...]) -> Step:
        """Thinks, asks, and pays as the task without questions does."""
        number = len(self._took_s)
        if self._is_trajectory and number < self._asking.steps:
            time.sleep(self._thinks_s[number])
            called = time.monotonic()
            self._resources.call(self._asking.resource, [repr(float(self._sizes[number])).encode()])
            self._took_s.append(time.monotonic() - called + self._waited_s * (number == 0))
            if number == self._asking.steps - 1:
                self._leave()
        return super().step(actions)

    def close(self) -> None:
        """Closes the pipe."""
        if self._slots is not None:
            os.close(self._slots)

    def _leave(self) -> None:
        if self._slots is not None:
            os.write(self._slots, b"x")
        line = Line(
            salt=self._asking.salt,
            began=self._began,
            thinks_s=self._thinks_s.tolist(),
            sizes=self._sizes.tolist(),
            took_s=self._took_s,
        )
        with Path(self._asking.lines).open("ab", buffering=0) as file:  # one write, next to other processes' writes
            file.write(msgspec.json.encode(line) + b"\n")
