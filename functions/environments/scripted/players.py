"""Scripted players: functions that choose agents' actions, see `script_names`.

A scripted player says which of the legal actions it chooses among, all of them equally likely: ``player(observations
[B, F], legal [B, actions]) -> chosen [B, actions]``, the last two being booleans. Observations are the policies'
observations. A player that returns `legal` acts at random.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module

import numpy as np

from marless.functions.environments.base import BoolArray, FloatArray
from marless.functions.errors import BadRequest
from marless.functions.isolation.process_guard import restore_arithmetic_after
from marless.functions.named_code import refuse_standard, require_function

ScriptedPlayer = Callable[[FloatArray, BoolArray], BoolArray]


@cache
def load(reference: str) -> ScriptedPlayer:
    """The function of a `reference`. Raises `BadRequest` if there is none."""
    module, _, name = reference.partition(":")
    try:
        refuse_standard(module)
        with restore_arithmetic_after(f"{reference}, import"):
            player: ScriptedPlayer = getattr(import_module(module), name)
        require_function(player, module, 2)
    except ValueError as error:
        raise BadRequest(f"scripted player {reference}: {error}") from error
    except Exception as error:
        error_text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise BadRequest(f"scripted player {reference}: {error_text}") from error
    return player


def choose(reference: str, observations: FloatArray, legal: BoolArray) -> BoolArray:
    """Return the actions that the player of a `reference` chooses among ``[B, actions]``.

    Raises `BadRequest` for a player that fails, or answers anything but legal actions, one or more in every row.
    """
    observations, legal = observations.view(), legal.view()
    observations.flags.writeable = legal.flags.writeable = False  # actors record the observations
    try:
        with restore_arithmetic_after(f"{reference}, call"):
            actions = np.asarray(load(reference)(observations, legal), np.bool_)
    except Exception as error:
        if isinstance(error, BadRequest):
            raise
        raise BadRequest(f"scripted player {reference}: {type(error).__name__}: {error}") from error
    if actions.shape != legal.shape or (actions & ~legal).any() or not actions.any(axis=1).all():
        raise BadRequest(f"scripted player {reference} has to choose one or more of the legal actions {legal.shape}")
    return actions
