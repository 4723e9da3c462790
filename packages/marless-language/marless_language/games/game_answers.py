"""The answers of games of text, in each form that such games have. Any other form is a fault that names the method."""

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from marless.functions.environments.pettingzoo.guard import Guard, one_line


def player_number(guard: Guard, answer: Any, players: int) -> tuple[int, Any]:
    """The player that has its turn, and the observation. Raises `EnvironmentFault`."""
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise guard.fault("get_observation", f"returned {_described(answer)}, not a player and its observation")
    number = _player(answer[0], players)
    if number is None:
        raise guard.fault("get_observation", f"it is the turn of player {_as_text(answer[0])}, whom there is not")
    return number, answer[1]


def message_text(guard: Guard, observation: Any) -> str:
    """The text of an observation or of its messages, one below the other. Raises `EnvironmentFault`."""
    if isinstance(observation, str):
        return observation
    if not isinstance(observation, tuple | list):
        raise guard.fault("get_observation", f"the observation is {_described(observation)}, no text and no messages")
    return "\n".join(_message(guard, message) for message in observation)


def _message(guard: Guard, message: Any) -> str:
    if isinstance(message, Mapping):
        text = message.get("content")
    elif isinstance(message, tuple | list) and len(message) > 1:
        text = message[1]
    else:
        text = message
    if not isinstance(text, str | Real):
        raise guard.fault("get_observation", f"a message is {_described(message)}, without a text")
    return str(text)


def is_over(guard: Guard, answer: Any) -> bool:
    """Return whether the game is over. Raises `EnvironmentFault`."""
    first = answer[0] if isinstance(answer, tuple | list) and len(answer) == 2 else answer
    if isinstance(first, Integral | np.bool_) and first in (0, 1):
        return bool(first)
    raise guard.fault("step", f"returned {_described(answer)}, not whether the game is over, and infos")


def rewards_by_player(guard: Guard, answer: Any, roles: Sequence[str]) -> list[float] | None:
    """The rewards of all players, 0 for a player that is not mentioned. None without rewards. Raises
    `EnvironmentFault`."""
    is_pair = isinstance(answer, tuple) and len(answer) == 2 and not all(isinstance(part, Real) for part in answer)
    rewards = answer[0] if is_pair else answer
    if rewards is None:
        return None
    if isinstance(rewards, tuple | list | np.ndarray) and np.ndim(rewards) == 1 and len(rewards) == len(roles):
        rewards = dict(enumerate(rewards))
    if not isinstance(rewards, Mapping):
        raise guard.fault("close", f"returned {_described(answer)}, not the rewards of {len(roles)} players")
    every, rewarded = [0.0] * len(roles), set[int]()
    for key, reward in rewards.items():
        player = roles.index(key) if key in roles else _player(key, len(roles))
        if player is None:
            raise guard.fault("close", f"returned a reward of player {_as_text(key)}, whom there is not")
        if player in rewarded:
            raise guard.fault("close", f"returned two rewards of {roles[player]}, the second as {_as_text(key)}")
        rewarded.add(player)
        every[player] = guard.number("close", reward, f"the reward of player {key}")
    return every


def _player(key: Any, players: int) -> int | None:
    """The number of a player, or None for other values. Some games write it as a text."""
    number = int(key) if isinstance(key, str) and key.isascii() and key.isdecimal() else key
    is_number = isinstance(number, Real) and not isinstance(number, bool)
    return int(number) if is_number and number in range(players) else None


def _described(answer: Any) -> str:
    kind = type(answer).__name__
    return f"{kind} of {len(answer)}" if isinstance(answer, tuple | list | Mapping) else f"{kind} {_as_text(answer)}"


def _as_text(answer: Any) -> str:
    return one_line(repr(answer), 40)
