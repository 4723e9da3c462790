"""The env tasks ``smac/<map>`` and ``smacv2/<race>_<n>_vs_<m>``: battles of StarCraft II (Samvelyan et al., 2019, and
Ellis et al., 2023). E games are stepped in a loop, each a separate StarCraft process.

Nothing is downloaded. The packages, StarCraft II and the maps must be installed, and error messages say how. StarCraft
starts at the first `reset` and ends with `close`. Options are the keyword arguments of the packages' `StarCraft2Env`,
and `repeatable`. A game's random numbers depend on its seed and all its actions since its start. So `reset` restarts
every game with a seed from its generator, which takes seconds for each. With ``repeatable = false`` games continue
through resets, and equal generators do not give equal battles.

Rewards: both packages give one reward for the team, scaled so that a battle won is worth about 20. It is divided
equally among the agents that were alive before the step. So the sum over agents, and so the return we report, is the
packages' own. A unit that dies terminates. From then on it sees zeros and has only the no-op, like all units after the
end of the battle. The time limit truncates an episode, while published results count this as a termination. The env
metric `win` is 1 for a battle that was won.
"""

from contextlib import ExitStack

import numpy as np

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
from marless.functions.environments.starcraft.smac_game import Frame, Game, Sizes, sizes_of
from marless.functions.environments.starcraft.smac_scenarios import Scenario, scenario_of

_SEEDS = 2**31  # StarCraft takes a 32-bit number. A non-negative int32 suits every seeding routine


def make(task: EnvTask, num_envs: int) -> VectorEnvironment:
    """`num_envs` games of the scenario in `task.name`, which are not started yet.

    Raises `ValueError` for an unknown map or option, or another number of agents than `task.agents`. Raises
    `MissingExtra` if the package is missing, and `EnvironmentFault` if it does not load.
    """
    options = dict(task.options)
    repeatable = options.pop("repeatable", True)
    if not isinstance(repeatable, bool):
        raise ValueError(f"{task.name}: task.options.repeatable is {repeatable!r}, not true or false")
    scenario = scenario_of(task, options)
    sizes = sizes_of(task.name, scenario.build(0))
    if task.agents not in (None, sizes.agents):
        raise ValueError(f"{task.name}: task.agents is {task.agents}, but the scenario has {sizes.agents} agents")
    return SmacEnvironment(scenario, sizes, num_envs, repeatable)


class SmacEnvironment:
    """E games of one scenario."""

    def __init__(self, scenario: Scenario, sizes: Sizes, num_envs: int, repeatable: bool) -> None:
        everybody = tuple(range(sizes.agents))
        self.num_envs = num_envs
        self.spec = EnvSpec(
            agents=tuple(f"agent_{i}" for i in everybody),
            classes=(AgentClass("agent", everybody, sizes.observation, sizes.actions),),
            horizon=sizes.horizon,
            state_size=sizes.state,
            masked=True,
        )
        self._repeatable = repeatable
        self._games = [Game(f"{scenario.name}, copy {number}", scenario, sizes) for number in range(num_envs)]

    def reset(self, rng: np.random.Generator) -> Observation:
        """The first observation of every game. `rng` draws a seed for each game.

        Raises `MissingExtra` where StarCraft or the map is missing, `EnvironmentFault` where the game fails.
        """
        frames = []
        for game, seed in zip(self._games, rng.integers(_SEEDS, size=self.num_envs).tolist(), strict=True):
            frames.append(game.again() if game.goes_on and not self._repeatable else game.start(seed))
        self._alive = np.ones((self.num_envs, len(self.spec.agents)), dtype=np.bool_)
        return _observation(frames, self._alive)

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps the games one after another. Raises `EnvironmentFault`."""
        moves = [
            game.step(actions_of_units.tolist()) for game, actions_of_units in zip(self._games, actions[0], strict=True)
        ]
        frames, outcomes = [frame for frame, _ in moves], [outcome for _, outcome in moves]
        before = self._alive
        over = np.array([outcome.over for outcome in outcomes])
        cut = np.array([outcome.cut for outcome in outcomes])
        self._alive = before & np.stack([frame.alive for frame in frames]) & ~over[:, None]
        done = cut | ~self._alive.any(axis=1)
        rewards = before * (np.array([outcome.reward for outcome in outcomes]) / before.sum(axis=1))[:, None]
        terminated = before & ~self._alive
        if not done.any():
            return Step(_observation(frames, self._alive), rewards, terminated, cut, done)
        final = _observation(frames, self._alive)
        for row in np.flatnonzero(done):
            frames[row] = self._games[row].again()
        self._alive = self._alive | done[:, None]
        env_metrics = {"win": np.array([float(outcome.victory) for outcome in outcomes])}
        return Step(_observation(frames, self._alive), rewards, terminated, cut, done, final, env_metrics)

    def close(self) -> None:
        """Ends every running StarCraft process, also when one of them fails to end."""
        with ExitStack() as closing:
            for game in self._games:
                closing.callback(game.close)


def _observation(frames: list[Frame], alive: BoolArray) -> Observation:
    """The observation of `frames`. Dead agents see zeros and have only the no-op."""
    values = np.stack([frame.values for frame in frames]) * alive[:, :, None]
    masks = np.stack([frame.masks for frame in frames])
    masks[~alive] = False
    masks[~alive, 0] = True
    return Observation(
        values=(values,), alive=alive.copy(), masks=(masks,), state=np.stack([frame.state for frame in frames])
    )
