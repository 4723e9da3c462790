"""The tasks ``jaxmarl:smax/<map>``: JaxMARL's own SMAX, to compare the tasks ``smax/<map>`` with.

The enemy is JaxMARL's script (`HeuristicEnemySMAX`). `task.options` are that class's keyword arguments. After
`max_steps` JaxMARL allows one step more. All environments are stepped together in one compiled function.

Rewards, ends and metrics are described in `marless.functions.environments.games.battles`.

The generator of `reset` gives every environment one key. All its random numbers derive from this key. Equal bytes need
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
from marless_tasks.smax.engine import Engine, Look, engine

PREFIX = "jaxmarl:smax/"
# The only legal action of a dead agent: JaxMARL's 'stop'.
_STOP = 4
_OURS = ("scenario", "action_type")


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` battles of the scenario in `task.name`.

    Raises `MissingExtra` without JaxMARL, and `ValueError` for an unknown scenario, wrong options or another number of
    agents than `task.agents`.
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
        """The first observation of every environment. One call of `rng` draws two words for each."""
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
        """See `marless.functions.environments.resumable`. The keys of battles are saved, too."""
        leaves = self._engine.leaves(self._keys, self._battles, self._look)
        return {"alive": self._alive.copy()} | {f"leaf/{place:03d}": leaf for place, leaf in enumerate(leaves)}

    def resume(self, saved: Mapping[str, NDArray[Any]], rng: np.random.Generator) -> Observation:
        """See `marless.functions.environments.resumable`."""
        leaves = [saved[name] for name in sorted(saved) if name.startswith("leaf/")]
        self._keys, self._battles, self._look = self._engine.of_leaves(leaves)
        self._alive = saved["alive"].copy()
        return _observation(self._look, self._alive)

    def close(self) -> None:
        """Holds nothing to free but memory."""


def _observation(look: Look, alive: BoolArray) -> Observation:
    masks = np.array(look.masks)
    masks[~alive] = False
    masks[~alive, _STOP] = True
    values = np.asarray(look.values, dtype=np.float32) * alive[:, :, None]
    return Observation(
        values=(values,), alive=alive.copy(), masks=(masks,), state=np.array(look.state, dtype=np.float32)
    )
