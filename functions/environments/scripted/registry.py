"""Scripted players by the env task that they play, and those of a user, ``package.module:function``.

A scripted player says which of the legal actions it chooses among, all of them equally likely:
``player(observations [B, F], legal [B, actions]) -> chosen [B, actions]``, the last two being booleans. Observations
are those that policies see. A player that returns `legal` acts at random.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module

import numpy as np

from functions.contract import BadRequest
from functions.environments.base import BoolArray, FloatArray
from functions.isolation.keeper import settled
from functions.named_code import refuse_standard, require_function

# The name of a task's own scripted player.
SCRIPTED = "scripted"

BUILT_IN = {
    "pettingzoo:pettingzoo.classic.connect_four_v3:env": "functions.environments.scripted.connect_four:choose",
    "pettingzoo:pettingzoo.classic.leduc_holdem_v4:env": "functions.environments.scripted.leduc_holdem:choose",
}

ScriptedPlayer = Callable[[FloatArray, BoolArray], BoolArray]

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*")


def named(text: str) -> bool:
    """Whether `text` names a scripted player, and not a run or a file."""
    return text == SCRIPTED or _REFERENCE.fullmatch(text) is not None


def reference(text: str, task: str) -> str:
    """The scripted player of that name for an env task, as ``package.module:function``.

    Raises `ValueError` for a task that has none of its own.
    """
    if text != SCRIPTED:
        return text
    if task not in BUILT_IN:
        listed = " and ".join(BUILT_IN)
        raise ValueError(
            f"{task} has no scripted player of its own ({listed} have one); name yours as package.module:function"
        )
    return BUILT_IN[task]


@cache
def load(found: str) -> ScriptedPlayer:
    """The function of a `reference`; raises `BadRequest` when there is none."""
    module, _, name = found.partition(":")
    try:
        refuse_standard(module)
        with settled(f"{found}, import"):
            player: ScriptedPlayer = getattr(import_module(module), name)
        require_function(player, module, 2)
    except ValueError as error:
        raise BadRequest(f"scripted player {found}: {error}") from error
    except Exception as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise BadRequest(f"scripted player {found}: {what}") from error
    return player


def choose(found: str, observations: FloatArray, legal: BoolArray) -> BoolArray:
    """What the player of a `reference` chooses among ``[B, actions]``.

    Raises `BadRequest` for a player that fails, or answers anything but legal actions, one or more in every row.
    """
    observations, legal = observations.view(), legal.view()
    observations.flags.writeable = legal.flags.writeable = False  # actors record what agents see
    try:
        with settled(f"{found}, call"):
            chosen = np.asarray(load(found)(observations, legal), np.bool_)
    except Exception as error:
        if isinstance(error, BadRequest):
            raise
        raise BadRequest(f"scripted player {found}: {type(error).__name__}: {error}") from error
    if chosen.shape != legal.shape or (chosen & ~legal).any() or not chosen.any(axis=1).all():
        raise BadRequest(f"scripted player {found} has to choose one or more of the legal actions {legal.shape}")
    return chosen
