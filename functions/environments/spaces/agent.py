"""One agent's spaces: its observation for a network, and a network's choice for the environment."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .actions import ActionCodec
from .observations import Array, observation_codec

_MASK = "action_mask"


class Seen(NamedTuple):
    """Observations of an agent for its network: one, or a batch."""

    # Its name in the call, which need not be a text.
    key: Any
    # ``[rows, size]`` float32.
    rows: Array
    # ``[rows, actions]``, or None if every action is legal.
    legal: Array | None
    # The axes of the batch, () for one observation.
    batch: tuple[int, ...]


class AgentCodec:
    """The spaces of the agent `name`, as JSON holds them: "observation", "action", "masked" and "joint"."""

    def __init__(self, name: str, spaces: Mapping[str, Any]) -> None:
        self.name = name
        self.observation = observation_codec(spaces["observation"])
        self.action = ActionCodec(spaces["action"], spaces["joint"])
        # Where the environment gives masks, or a dictionary can be nothing else.
        self._may_hold_mask = spaces["masked"] or spaces["observation"]["type"] != "dict"
        # The entries of an observation next to the mask. It is () for ``{"observation", "action_mask"}``.
        self._entries = tuple(spaces["observation"].get("keys", ()))
        if self._entries == ("observation",):
            self._entries = ()

    def encode(self, key: Any, observation: Any, mask: Any = None, waits: bool = False) -> Seen:
        """An observation of the environment, or a batch of them with more axes in front. A mask may be in
        ``{"observation": ..., "action_mask": ...}``, next to the space's own entries, or in `mask`. An agent that
        `waits` has only the first action. Raises `SpaceError`."""
        if self._may_hold_mask and isinstance(observation, Mapping) and _MASK in observation:
            mask, entries = observation[_MASK], self._entries
            if "observation" in observation and not (entries and all(key in observation for key in entries)):
                observation = observation["observation"]
        batch = self.observation.batch_of(observation)
        values = np.empty((*batch, self.observation.size), np.float32)
        self.observation.write(observation, f"the observation of agent '{self.name}'", values)
        mask, legal = self.action.first if waits else mask, None
        if mask is not None and not self.action.continuous:
            legal = self.action.read_mask(mask, batch, f"the action mask of agent '{self.name}'")
            legal = legal.reshape(-1, self.action.actions)
        return Seen(key, values.reshape(-1, self.observation.size), legal, batch)

    def decode(self, numbers: Array, batch: tuple[int, ...]) -> Any:
        """The environment's actions for a network's ``[rows, ...]``: an int for one discrete action, else an array
        (of one number without axes, NumPy's number)."""
        return self.cast(self.action.decode(numbers), batch)

    def cast(self, actions: Array, batch: tuple[int, ...]) -> Any:
        """Actions ``[rows, *shape]`` in the space's type of numbers, in the shape of the batch."""
        typed_actions = self.action.cast(actions).reshape((*batch, *self.action.shape))
        if typed_actions.shape:
            return typed_actions
        return typed_actions[()] if self.action.continuous else typed_actions.item()

    def example(self) -> Any:
        """An observation of this space, for a trial."""
        return self.observation.read(np.zeros(self.observation.size, np.float32))
