"""Continuous actions and two jobs: `outsider/kettle`.

A kettle of 200 litres delivers warm water. A plumber sets the inlet of cold water (10 °C) and the outlet, each from 0
to 20 litres a minute. Stokers, by default two, share a fire of 80 kW, and each orders the power of an equal part. The
fire is slow: in each minute its power moves by 30 % of the way to the order. Water mixes at once, and does not get
hotter than 100 °C. Ten litres stay in the kettle, and water above 200 litres runs off.

The house wants 65 °C, and a flow from 5 to 15 litres a minute. In each minute the house wants a new flow with a chance
of 5 %. All agents lose a tenth of the difference of the temperature in °C, and the difference of the flow in litres. An
episode has 120 minutes. No return is above 0, and random play gets about -780 for each agent.

The plumber observes litres, °C, the wanted flow and the whole power in kW. A stoker observes litres, °C, the last
flow and the power of its part. It does not see the wanted flow.
"""

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    EnvTask,
    Observation,
    RewardArray,
    VectorEnvironment,
)
from marless.functions.environments.episodic import EpisodicEnvironment, agents_of

_HORIZON, _AGENTS = 120, 3
_LITRES, _LEAST, _FLOW, _KILOWATTS = 200.0, 10.0, 20.0, 80.0
_COLD, _WANTED, _BOILING = 10.0, 65.0, 100.0
# One kW warms so many litres by one °C in a minute: 60 kJ, at 4.186 kJ for a litre and °C.
WARMS = 60 / 4.186
_SLOWNESS, _CHANGE, _LOWEST, _HIGHEST = 0.3, 0.05, 5.0, 15.0


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """Return `num_envs` environments. Raise `ValueError` for fewer agents than two."""
    return Kettle(agents_of(task, _AGENTS, 2, "a plumber needs a stoker"), num_envs)


class Kettle(EpisodicEnvironment):
    """E environments with the rules of the module. `power` is ``[E, stokers]`` in kW, and other values are ``[E]``."""

    def __init__(self, agents: int, num_envs: int) -> None:
        stokers = agents - 1
        names = ("plumber", *(f"stoker_{stoker}" for stoker in range(stokers)))
        plumber = AgentClass("plumber", (0,), 4, 2, low=(0.0, 0.0), high=(_FLOW, _FLOW))
        stoker = AgentClass("stoker", tuple(range(1, agents)), 4, 1, low=(0.0,), high=(_KILOWATTS / stokers,))
        super().__init__(EnvSpec(names, (plumber, stoker), _HORIZON), num_envs)
        self.litres, self.degrees, self.flow, self.wanted = np.zeros((4, num_envs))
        self.power = np.zeros((num_envs, stokers))

    def _play(self, actions: tuple[ActionArray, ...]) -> tuple[RewardArray, BoolArray]:
        (inlet, outlet), orders = actions[0][:, 0].astype(np.float64).T, actions[1][..., 0].astype(np.float64)
        self.power = self.power + _SLOWNESS * (orders - self.power)
        self.flow = np.minimum(outlet, self.litres - _LEAST)
        litres = self.litres - self.flow + inlet
        heat = (self.litres - self.flow) * self.degrees + inlet * _COLD + WARMS * self.power.sum(axis=1)
        self.degrees, self.litres = np.minimum(heat / litres, _BOILING), np.minimum(litres, _LITRES)
        lost = np.abs(self.degrees - _WANTED) / 10 + np.abs(self.flow - self.wanted)
        changes = self._rng.uniform(size=self.num_envs) < _CHANGE
        self.wanted = np.where(changes, self._wish(), self.wanted)
        return np.repeat(-lost[:, None], self._alive.shape[1], axis=1), np.zeros_like(self._alive)

    def _wish(self) -> NDArray[np.float64]:
        """Draw wanted flows."""
        return self._rng.uniform(_LOWEST, _HIGHEST, size=self.num_envs)

    def _begin(self, rows: BoolArray) -> None:
        litres = self._rng.uniform(50, 150, size=self.num_envs)
        self.litres, self.wanted = np.where(rows, litres, self.litres), np.where(rows, self._wish(), self.wanted)
        self.degrees, self.flow = np.where(rows, _COLD, self.degrees), np.where(rows, 0.0, self.flow)
        self.power = np.where(rows[:, None], 0.0, self.power)

    def _observe(self) -> Observation:
        kettle = [self.litres, self.degrees]
        plumber = np.stack([*kettle, self.wanted, self.power.sum(axis=1)], axis=-1, dtype=np.float32)[:, None]
        shared = np.stack([*kettle, self.flow], axis=-1)[:, None].repeat(self.power.shape[1], axis=1)
        stokers = np.concatenate([shared, self.power[..., None]], axis=-1, dtype=np.float32)
        return Observation((plumber, stokers), self._alive.copy())
