"""Battles with units in the places that a test chooses."""

import numpy as np

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask

UP, RIGHT, DOWN, LEFT, STOP, FIRST_ENEMY = range(6)
# Of a unit that others see: numbers, and the places of its latest target and its cooldown.
SHOWN, TARGET, COOLDOWN = 13, 5, 6
# Far from each other and from walls.
CORNERS = np.array([(5, 5), (5, 27), (5, 16), (27, 5), (27, 27), (27, 16)], float)


def battle(name="3m", positions=CORNERS, dead=(), **options):
    """One battle with units at these positions, ready to shoot. Units of `dead` are dead."""
    environment = registry.make(EnvTask(name=f"smax/{name}", options=options), 1)
    environment.reset(np.random.default_rng(0))
    arrays, positions = environment.arrays, np.array(positions, float)
    arrays["x"][0, : len(positions)], arrays["y"][0, : len(positions)] = positions.T
    arrays["health"][0, list(dead)] = 0
    return environment


def near(**places):
    positions = CORNERS.copy()
    for unit, place in places.items():
        positions[int(unit.removeprefix("unit_"))] = place
    return positions


def stepped(environment, *actions):
    return environment.step((np.array([actions]),))


def observed(environment):
    return environment.resume(environment.save(), np.random.default_rng(0))


def others_of(environment, agent=0):
    """The features of the other units that an agent sees ``[others, 13]``."""
    values = observed(environment).values[0][0, agent]
    return values[: len(values) // SHOWN * SHOWN].reshape(-1, SHOWN)


def place_of(environment, unit):
    return environment.arrays["x"][0, unit], environment.arrays["y"][0, unit]
