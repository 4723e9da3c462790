"""The tasks ``smax/<map>``: JaxMARL's SMAX (Rutherford et al., 2024), StarCraft battles without StarCraft.

The enemy is JaxMARL's script (`HeuristicEnemySMAX`). `task.options` are that class's keyword arguments; among them
`max_steps`, after which JaxMARL allows one step more. All environments are stepped together in one compiled function.

Rewards: JaxMARL gives every ally, dead ones included, the team's reward: the share of the enemy's health that was lost,
and 1 for the victory, so 2 at most for an episode. Here the team's reward is divided equally among the agents that were
alive before the step. The sum over agents, and so the return we report, is the team's, which is what JaxMARL reports as
its return. A unit that dies terminates. An episode terminates when one side is dead, and is truncated at the time
limit. The env metric `win` is 1 if all enemies and not all allies are dead. Positions in the global state are divided
by the size of the map, about 32, because mixing networks and critics fail with large inputs.

The generator of `reset` gives every environment one key, from which all its random numbers derive. Equal bytes need
equal versions of jax and JaxMARL, equal processors, and an equal number of environments.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    BoolArray,
    EnvSpec,
    EnvTask,
    Observation,
    Step,
    VectorEnvironment,
)
from marless.functions.environments.scene import Box, Colour, Disc, Scene, Shape, fade
from marless.functions.environments.starcraft.smax_engine import Engine, Look, Units, engine

PREFIX = "smax/"
# The only legal action of a dead agent: JaxMARL's 'stop'.
_STOP = 4
_OURS = ("scenario", "action_type")
_ALLY, _ENEMY, _HEALTH, _LOST = (0.3, 0.4, 0.9), (0.9, 0.35, 0.35), (0.2, 0.7, 0.2), (0.85, 0.85, 0.85)


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` battles of the scenario in `task.name`.

    Raises `MissingExtra` without JaxMARL, and `ValueError` for a scenario it does not know, options it does not take or
    another number of agents than `task.agents`.
    """
    if fixed_options := [key for key in _OURS if key in task.options]:
        raise ValueError(f"{task.name}: task.options.{fixed_options[0]} cannot be chosen")
    battle = engine(task.name, task.name.removeprefix(PREFIX), tuple(sorted(task.options.items())))
    if task.agents not in (None, len(battle.agents)):
        raise ValueError(f"{task.name}: task.agents is {task.agents}, but the scenario has {len(battle.agents)} agents")
    return SmaxEnvironment(battle, num_envs)


class SmaxEnvironment:
    """E environments of one SMAX battle."""

    def __init__(self, battle: Engine, num_envs: int) -> None:
        everybody = tuple(range(len(battle.agents)))
        self.num_envs = num_envs
        self.spec = EnvSpec(
            agents=battle.agents,
            classes=(AgentClass("ally", everybody, battle.observation_size, battle.actions, entities=battle.entities),),
            horizon=battle.horizon,
            state_size=battle.state_size,
            masked=True,
        )
        self._engine = battle
        # Called when battles have ended, before the reset: the last states can be drawn there.
        self.before_reset: Callable[[], None] | None = None

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every environment; one call of `rng` draws two words for each."""
        seeds = rng.integers(2**32, size=(self.num_envs, 2), dtype=np.uint32)
        everywhere = np.ones(self.num_envs, dtype=np.bool_)
        self._keys, self._battles, self._look = self._engine.renew(*self._engine.blank(seeds), everywhere)
        self._alive = np.ones((self.num_envs, len(self.spec.agents)), dtype=np.bool_)
        return _observation(self._look, self._alive)

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps all environments at once."""
        choices = np.asarray(actions[0], dtype=np.int32)
        self._keys, self._battles, self._look, outcome = self._engine.step(self._keys, self._battles, choices)
        before, over, cut = self._alive, np.asarray(outcome.over), np.array(outcome.cut)
        self._alive = np.asarray(outcome.alive) & ~over[:, None]
        done = over | cut
        # The team's reward in equal shares for the agents that were alive.
        share = np.asarray(outcome.reward, dtype=np.float64) / before.sum(axis=1)
        step: dict[str, Any] = {
            "rewards": before * share[:, None],
            "terminated": before & ~self._alive,
            "truncated": cut,
            "ended": done,
        }
        if not done.any():
            return Step(_observation(self._look, self._alive), **step)
        if self.before_reset is not None:
            self.before_reset()
        final = _observation(self._look, self._alive)
        self._keys, self._battles, self._look = self._engine.renew(self._keys, self._battles, self._look, done)
        self._alive = self._alive | done[:, None]
        env_metrics = {"win": np.asarray(outcome.victory, dtype=np.float64)}
        return Step(_observation(self._look, self._alive), **step, final=final, env_metrics=env_metrics)

    def save(self) -> dict[str, NDArray[Any]]:
        """See `marless.functions.environments.resumable`; battles draw from keys of their own, which are saved with
        them."""
        leaves = self._engine.leaves(self._keys, self._battles, self._look)
        return {"alive": self._alive.copy()} | {f"leaf/{place:03d}": leaf for place, leaf in enumerate(leaves)}

    def resume(self, saved: Mapping[str, NDArray[Any]], rng: np.random.Generator) -> Observation:
        """See `marless.functions.environments.resumable`."""
        leaves = [saved[name] for name in sorted(saved) if name.startswith("leaf/")]
        self._keys, self._battles, self._look = self._engine.of_leaves(leaves)
        self._alive = saved["alive"].copy()
        return _observation(self._look, self._alive)

    def render(self, index: int) -> Scene:
        """A battle: allies blue, enemies red, with bars of their health; dead units are faded."""
        units = self._engine.units(self._battles, index)
        allies = len(self.spec.agents)
        colours = [_ALLY if unit < allies else _ENEMY for unit in range(len(units.alive))]
        return Scene(units.width, units.height, tuple(_shapes(units, colours)))

    def close(self) -> None:
        """Holds nothing to free but memory."""


def _shapes(units: Units, colours: list[Colour]) -> list[Shape]:
    """Dead units below all others."""
    shapes: list[Shape] = []
    for unit in sorted(range(len(colours)), key=lambda unit: bool(units.alive[unit])):
        (x, up), radius, share = units.position[unit], float(units.radius[unit]), float(units.health[unit])
        x, y = float(x), units.height - float(up)
        if not units.alive[unit]:
            shapes.append(Disc(x, y, radius, fade(colours[unit]), outline=_LOST))
            continue
        x_left, top = x - radius, y - radius - 0.4
        shapes.append(Disc(x, y, radius, colours[unit]))
        shapes.append(Box(x_left, top, 2 * radius, 0.25, _LOST))
        shapes.append(Box(x_left, top, 2 * radius * share, 0.25, _HEALTH))
    return shapes


def _observation(look: Look, alive: BoolArray) -> Observation:
    masks = np.array(look.masks)
    masks[~alive] = False
    masks[~alive, _STOP] = True
    values = np.asarray(look.values, dtype=np.float32) * alive[:, :, None]
    return Observation(
        values=(values,), alive=alive.copy(), masks=(masks,), state=np.array(look.state, dtype=np.float32)
    )
