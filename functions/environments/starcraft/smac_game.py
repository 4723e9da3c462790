"""One game of StarCraft II behind SMAC's interface: its process, its random numbers, and its errors as faults."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from marless.functions.environments.base import BoolArray, FloatArray
from marless.functions.environments.pettingzoo.guard import Guard, describe_error, describe_error_with_location
from marless.functions.environments.starcraft.smac_scenarios import Scenario


@dataclass(frozen=True)
class Sizes:
    """The sizes that a game reports before it is started. `horizon` is in steps."""

    agents: int
    observation: int
    actions: int
    state: int
    horizon: int


@dataclass(frozen=True)
class Frame:
    """The game's output: observations ``[n, observation]``, legal actions ``[n, actions]``, state ``[state]``."""

    values: FloatArray
    masks: BoolArray
    state: FloatArray

    @property
    def alive(self) -> BoolArray:
        """The living agents ``[n]``: they have a legal action other than action 0, the no-op."""
        return np.asarray(self.masks[:, 1:].any(axis=1))


@dataclass(frozen=True)
class Outcome:
    """A step's team `reward`, and whether the battle is `over`, was a `victory`, or was `cut` by the time limit."""

    reward: float
    over: bool
    victory: bool
    cut: bool


class Game:
    """A game that can be started again. StarCraft runs from the first `start` to `close`.

    `goes_on`: whether `again` may be called. Before an episode has ended, both packages would start a second StarCraft
    process and lose the first.

    Both packages draw from the process's generators, and SMACv2 also from its own unseeded generators. Here each game
    has a separate state of the process's generators, and SMACv2's are replaced. So a game's random numbers depend on
    its seed and not on other games.
    """

    def __init__(self, label: str, scenario: Scenario, sizes: Sizes) -> None:
        self._where = label
        self._scenario = scenario
        self._sizes = sizes
        self._guard: Guard | None = None
        self.goes_on = False

    def start(self, seed: int) -> Frame:
        """Closes the old game and starts one with `seed`. Raises `MissingExtra` and `EnvironmentFault`."""
        self.close()
        self._python, self._numpy = random.Random(seed).getstate(), np.random.RandomState(seed).get_state()
        with self._own_numbers():
            self._guard = Guard(self._where, self._scenario.build(seed))
            _seed_distributions(self._guard.environment, np.random.default_rng(seed))
            self._launch(self._guard)
        return self._frame(self._guard, "reset")

    def again(self) -> Frame:
        """The next episode of the running game. Raises `EnvironmentFault`."""
        guard = self._running_guard()
        guard.steps = 0
        with self._own_numbers():
            guard.call("reset")
        return self._frame(guard, "reset")

    def step(self, actions: list[int]) -> tuple[Frame, Outcome]:
        """Steps the game. Raises `EnvironmentFault`."""
        guard = self._running_guard()
        guard.steps += 1
        with self._own_numbers():
            answer = guard.call("step", actions)
        if not (isinstance(answer, tuple) and len(answer) == 3 and isinstance(answer[2], dict)):
            raise guard.fault("step", f"returned {type(answer).__name__}, not (reward, terminated, info)")
        reward, done, info = answer
        if "battle_won" not in info:
            raise self._crash_error(guard, "step")
        reward_sum = guard.numbers("step", reward, (), "the reward", np.float64)[0]
        cut = bool(done) and bool(info.get("episode_limit", False))
        frame = self._frame(guard, "step")
        if not (done or frame.alive.any()):
            raise guard.fault("step", "no unit can act, but the battle goes on")
        self.goes_on = self.goes_on or bool(done)
        return frame, Outcome(float(reward_sum), bool(done) and not cut, bool(info["battle_won"]), cut)

    def close(self) -> None:
        """Ends StarCraft, if it runs."""
        guard, self._guard, self.goes_on = self._guard, None, False
        if guard is not None:
            guard.call("close")

    def _running_guard(self) -> Guard:
        if self._guard is None:
            raise RuntimeError(f"{self._where}: step before reset")
        return self._guard

    def _launch(self, guard: Guard) -> None:
        """The first reset, which starts StarCraft. PySC2's exceptions become errors with a cause."""
        try:
            guard.environment.reset()
        except Exception as error:
            kind = type(error).__name__
            if kind == "NoMapError" or (kind == "ValueError" and "not found" in str(error)):
                raise self._scenario.needs_maps(describe_error(error)) from error
            if kind in ("SC2LaunchError", "FileNotFoundError") or "it doesn't exist" in str(error):
                raise self._scenario.needs_game(describe_error(error)) from error
            raise guard.fault("reset", describe_error_with_location(error)) from error

    def _frame(self, guard: Guard, method: str) -> Frame:
        """The current frame, read once a step, because SMACv2 draws observations at random."""
        sizes = self._sizes
        # The package counts its own restarts of StarCraft. After a restart the output is of the old battle.
        if getattr(guard.environment, "force_restarts", 0):
            raise self._crash_error(guard, method)
        with self._own_numbers():
            observations, legal, state = (guard.call(name) for name in ("get_obs", "get_avail_actions", "get_state"))
        masks = guard.numbers(method, legal, (sizes.agents, sizes.actions), "the available actions")
        masks = masks.reshape(sizes.agents, sizes.actions) != 0
        if not masks.any(axis=1).all():
            raise guard.fault(method, "an agent has no available action")
        values = guard.numbers(method, observations, (sizes.agents, sizes.observation), "the observations")
        return Frame(
            values.reshape(sizes.agents, sizes.observation),
            masks,
            guard.numbers(method, state, (sizes.state,), "the state"),
        )

    def _crash_error(self, guard: Guard, method: str) -> Exception:
        self.goes_on = False
        return guard.fault(method, "StarCraft II crashed or lost its connection")

    @contextmanager
    def _own_numbers(self) -> Iterator[None]:
        """Sets the process's generators to this game's states within the context."""
        random_states = random.getstate(), np.random.get_state()
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        try:
            yield
        finally:
            self._python, self._numpy = random.getstate(), np.random.get_state()
            random.setstate(random_states[0])
            np.random.set_state(random_states[1])


def sizes_of(label: str, game: Any) -> Sizes:
    """The sizes of a game that is not started. Raises `EnvironmentFault`."""
    guard = Guard(label, game)
    info = guard.call("get_env_info")
    try:
        names = ("n_agents", "obs_shape", "n_actions", "state_shape", "episode_limit")
        return Sizes(*(int(info[name]) for name in names))
    except (KeyError, TypeError, ValueError) as error:
        raise guard.fault("get_env_info", describe_error(error)) from error


def _seed_distributions(game: Any, rng: np.random.Generator) -> None:
    """Replaces the generators in SMACv2's distributions, at any depth, by streams of `rng`."""
    waiting = list(getattr(game, "env_key_to_distribution_map", {}).values())
    while waiting:
        distribution = waiting.pop(0)
        for name, value in list(vars(distribution).items()):
            if isinstance(value, np.random.Generator):
                setattr(distribution, name, rng.spawn(1)[0])
            elif hasattr(value, "generate"):
                waiting.append(value)
