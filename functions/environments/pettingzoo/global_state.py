"""The global state of PettingZoo environments."""

from typing import Any

import msgspec
import numpy as np

from marless.functions.environments.base import AgentClass, FloatArray, Observation
from marless.functions.environments.pettingzoo.guard import Guard
from marless.functions.environments.pettingzoo.spaces import image_or_numbers
from marless.functions.environments.pettingzoo.wrappers import innermost
from marless.functions.environments.spaces.observations import ObservationCodec, is_finite, observation_codec

# Modules of environments with the concatenated observations of all agents as state.
_CONCATENATED = {"mpe2._mpe_utils.simple_env"}

# Kinds of numpy's types.
_NUMBERS = "biuf"


def state_encoder(guard: Guard) -> ObservationCodec | None:
    """The encoder of the environment's global state, or None if it has none that is an array of numbers. The
    environment has been reset."""
    # Some environments have another attribute `state`, which the wrappers of PettingZoo would call.
    if not callable(getattr(getattr(guard.environment, "unwrapped", guard.environment), "state", None)):
        return None
    try:
        state = np.asarray(guard.environment.state())
    except (AttributeError, NotImplementedError):
        return None
    except Exception as error:
        raise guard.fault_of("state", error) from error
    if state.dtype.kind not in _NUMBERS:
        return None
    space = image_or_numbers(state.shape, getattr(guard.environment, "state_space", None))
    return observation_codec(msgspec.to_builtins(space))


class StateWriter:
    """Writes the state of environment number `row`."""

    def __init__(self, row: int, guard: Guard, classes: tuple[AgentClass, ...], encoder: ObservationCodec) -> None:
        self._row = row
        self._guard = guard
        self._encoder = encoder
        self._column_runs = _column_runs(classes) if _is_concatenated(guard.environment) else []

    def write(self, observation: Observation, all_alive: bool, into: FloatArray) -> None:
        """Writes into its row of `into` ``[E, state_size]``, zeros.

        If the state is the concatenation of all observations, it is copied from `observation` while all agents are
        alive. `state()` would take longer than the rest of the adapter. Raises `EnvironmentFault`.
        """
        row = self._row
        if all_alive and self._column_runs:
            for columns, kind, places in self._column_runs:
                into[row, columns] = observation.values[kind][row, places].reshape(-1)
            return
        state = self._guard.call("state")
        if not self._write_fast(state, into):
            with self._guard.space_errors("state"):
                self._encoder.write(state, "the state", into[row])

    def _write_fast(self, state: Any, into: FloatArray) -> bool:
        """False if few checks cannot show that the state is valid, so that it has to be written again."""
        try:
            self._encoder.write_fast(state, into, self._row)
            return self._encoder.finite or is_finite(into[self._row])
        except Exception:  # of any type: `write` raises the fault that names the cause
            return False


def _is_concatenated(environment: Any) -> bool:
    """Return True if the state is the observations of all agents, in the order of `possible_agents`."""
    kind = type(innermost(environment))
    methods = [getattr(kind, name, None) for name in ("state", "observe")]
    return all(getattr(method, "__module__", None) in _CONCATENATED for method in methods)


def _column_runs(classes: tuple[AgentClass, ...]) -> list[tuple[slice, int, slice]]:
    """Agents that are consecutive in the state and in their class: columns of the state, the class, places in it."""
    places = {i: (c, j, kind.observation_size) for c, kind in enumerate(classes) for j, i in enumerate(kind.agents)}
    runs: list[tuple[slice, int, slice]] = []
    column = 0
    for _, (c, j, size) in sorted(places.items()):
        if runs and runs[-1][1:] == (c, slice(runs[-1][2].start, j)):
            last = runs.pop()
            runs.append((slice(last[0].start, column + size), c, slice(last[2].start, j + 1)))
        else:
            runs.append((slice(column, column + size), c, slice(j, j + 1)))
        column += size
    return runs
