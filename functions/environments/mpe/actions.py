"""Converts action arrays to pushes and words. Actions are choices numbered like `mpe2`'s, or continuous in [0, 1].

An agent that moves has the choices none, left, right, down, up. An agent that speaks chooses a word. With both it has
``5 * words`` choices, and number ``5 * word + movement`` is that word with that movement. Continuous actions are the
strengths of the five movements, then of every word.
"""

import msgspec
import numpy as np

from marless.functions.environments.base import ActionArray, AgentClass
from marless.functions.environments.mpe.world import Body, World

MOVEMENTS = 5

# Direction of push per movement: none, left, right, down, up.
_PUSH = np.array([[0.0, -1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, -1.0, 1.0]])


def in_numbers(kind: AgentClass, agent: Body, words: int) -> AgentClass:
    """`kind` with continuous actions between 0 and 1. Its agents are like `agent`."""
    numbers = MOVEMENTS * agent.moves + words * agent.speaks
    return msgspec.structs.replace(kind, actions=numbers, low=(0.0,) * numbers, high=(1.0,) * numbers)


class Controls:
    """Applies the actions of class `kind` to a world with `words` words. Its agents are like `agent`."""

    def __init__(self, kind: AgentClass, agent: Body, words: int) -> None:
        self._members = slice(kind.agents[0], kind.agents[-1] + 1)
        self._continuous = kind.continuous
        self._moves, self._speaks = agent.moves, agent.speaks
        self._words = np.arange(words)[:, None]

    def apply(self, actions: ActionArray, world: World) -> None:
        """Applies `actions`, ``[E, n]`` choices or ``[E, n, actions]`` float32, as pushes and messages."""
        if self._continuous:
            self._apply_numbers(actions, world)
        else:
            self._apply_choices(actions, world)

    def _apply_choices(self, actions: ActionArray, world: World) -> None:
        movements = words = actions.T
        if self._moves and self._speaks:
            words, movements = np.divmod(actions.T, MOVEMENTS)
        if self._moves:
            world.push(self._members, _PUSH.take(movements, axis=1).swapaxes(0, 1))
        if self._speaks:
            world.said[self._members] = words[:, None] == self._words

    def _apply_numbers(self, actions: ActionArray, world: World) -> None:
        """Right minus left, up minus down, subtracted in float32 after clipping, like mpe2."""
        strengths = np.clip(actions, 0.0, 1.0).transpose(1, 2, 0)
        if self._moves:
            world.push(self._members, strengths[:, 2:MOVEMENTS:2] - strengths[:, 1 : MOVEMENTS - 1 : 2])
        if self._speaks:
            world.said[self._members] = strengths[:, MOVEMENTS * self._moves :]
