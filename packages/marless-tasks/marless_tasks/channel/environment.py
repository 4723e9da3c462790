"""The task ``channel/wall``: agents that learn the stress at the walls of a turbulent channel flow.

A coarse large-eddy simulation of one flow, not a validated wall model. Each agent has a patch of a wall. Its action, a
factor from 0.9 to 1.1, multiplies the stress at the centre of its patch. Stresses between centres are linear. Then the
flow advances by `solver_steps` time steps.

An agent observes the log law through the mean velocity above its patch, in its own u_τ: the slope ``1/κ_m = ∂u⁺ / ∂ ln
y`` and the intercept ``B_m = u⁺ - ln(y⁺) / κ_m``. Where the stress is right, these are 1/κ and B at every Reynolds
number. The reward is ``(|τ* - τ_before| - |τ* - τ|) / τ*``, and 1 more where τ is within 1 % of τ*. The right stress τ*
follows from the bulk velocity by the friction law of `walls.Channel`.

Source: Bae and Koumoutsakos, "Scientific multi-agent reinforcement learning for wall-models of turbulent flows", 2022.
With the option `viscosity`, an action multiplies an eddy viscosity n, and the stress is ``n u / y``. Source: Zhou and
Bae, "Large-eddy simulation of flow over periodic hills using a wall model based on reinforcement learning", 2023.

Bytes depend on the FFT and on the matrix product of numpy, as `solver` says.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions.environments.base import (
    ActionArray,
    AgentClass,
    EnvironmentFault,
    EnvSpec,
    EnvTask,
    Observation,
    Step,
    options_of,
)
from marless.functions.environments.scene import Scene
from marless_tasks.channel import fields
from marless_tasks.channel.picture import drawn
from marless_tasks.channel.solver import Array, Grid, advance, courant
from marless_tasks.channel.walls import MATCHED, Channel, directed, parallel

LOW, HIGH = 0.9, 1.1
# Of the time scheme, for centred differences.
_MOST_COURANT = 3**0.5
# Stresses stay between τ* over this number and τ* times this number, or constant actions would end the simulation.
_FARTHEST = 4.0

Positive = Annotated[int, msgspec.Meta(ge=1)]
Number = Annotated[float, msgspec.Meta(ge=0)]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of `task.options`.

    Attributes:
        reynolds: friction Reynolds numbers. Each episode draws one of them
        cells: the numbers of cells along the flow, between the walls and along the span
        patches: the numbers of agents at each wall along the flow and along the span
        horizon: actions of an episode
        solver_steps: time steps after each action
        dt: a time step in h / U_b
        spread: stresses start between 1 - spread and 1 + spread times τ*
        smagorinsky: the constant of the subgrid model, 0 for none
        viscosity: actions multiply an eddy viscosity instead of the stress
    """

    reynolds: str | Annotated[float, msgspec.Meta(ge=100)] = "2000,4200,8000"
    cells: str = "32x24x24"
    patches: str = "4x4"
    horizon: Positive = 400
    solver_steps: Positive = 1
    dt: Annotated[float, msgspec.Meta(gt=0)] = 0.05
    spread: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.5
    smagorinsky: Number = fields.SMAGORINSKY
    viscosity: bool = False


def make(task: EnvTask, num_envs: int) -> "ChannelEnvironment":
    """`num_envs` channels. Raises `ValueError` for wrong options or another number of agents than `task.agents`."""
    options = options_of(task, Options)
    numbers = _numbers(task.name, "reynolds", str(options.reynolds), ",", float)
    cells = _numbers(task.name, "cells", options.cells, "x", int)
    patches = _numbers(task.name, "patches", options.patches, "x", int)
    if min(numbers) < 100:
        raise ValueError(f"{task.name}: task.options.reynolds is {options.reynolds}. Each number must be at least 100")
    if len(cells) != 3 or min(cells) < 4 or cells[1] < 10:
        raise ValueError(
            f"{task.name}: task.options.cells is {options.cells}. Write three numbers such as 32x24x24, at least 4x10x4"
        )
    if len(patches) != 2 or min(patches) < 1 or cells[0] % patches[0] or cells[2] % patches[1]:
        raise ValueError(
            f"{task.name}: task.options.patches is {options.patches}. Write two numbers such as 4x4, which divide the"
            f" cells along the flow ({cells[0]}) and along the span ({cells[2]})"
        )
    count = 2 * patches[0] * patches[1]
    if task.agents not in (None, count):
        raise ValueError(f"{task.name}: task.agents is {task.agents}, but task.options.patches makes {count} agents")
    channels = [Channel.at(number) for number in numbers]
    return ChannelEnvironment(task.name, options, channels, Grid.of(*cells), patches, num_envs)


class ChannelEnvironment:
    """E channels, which are simulated one after another."""

    def __init__(
        self,
        name: str,
        options: Options,
        channels: list[Channel],
        grid: Grid,
        patches: tuple[int, ...],
        num_envs: int,
    ) -> None:
        agents = [f"{wall}_{x}_{z}" for wall in ("lower", "upper") for x, z in np.ndindex(*patches)]
        everybody = tuple(range(len(agents)))
        self.num_envs = num_envs
        self.spec = EnvSpec(
            agents=tuple(agents),
            classes=(AgentClass("patch", everybody, 2, 1, low=(LOW,), high=(HIGH,)),),
            horizon=options.horizon,
        )
        self.channels, self.grid = channels, grid
        self._name, self._options, self._patches = name, options, patches
        _, nx, nz = grid.cells
        self._weights = _weights(nx, patches[0]), _weights(nz, patches[1])
        # Called when episodes have ended, before the reset: the last states can be drawn there.
        self.before_reset: Callable[[], None] | None = None

    def reset(self, rng: np.random.Generator) -> Observation:
        """Turbulent flows, with stresses that are wrong by up to `spread`."""
        self._rng, self._steps = rng, 0
        shape = (self.num_envs, 2, *self._patches)
        self._which = rng.integers(len(self.channels), size=self.num_envs)
        self._velocity = np.stack([fields.start(self.grid, self.channels[which], rng) for which in self._which])
        spread = self._options.spread
        self._wall = self._right() * rng.uniform(1 - spread, 1 + spread, (self.num_envs, 1, 1, 1)) * np.ones(shape)
        if self._options.viscosity:  # the same stress
            self._wall /= self.speeds(MATCHED) / self.height
        # Sums over the second half of an episode: the error of the mean stress, and of each agent's.
        self._errors = np.zeros((self.num_envs, 2))
        return self._observation()

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Multiplies stresses and advances the flows. Raises `EnvironmentFault` where a flow is too fast for `dt`."""
        right, before = self._right(), self.stress()
        factors = np.clip(np.asarray(actions[0], np.float64), LOW, HIGH).reshape(self._wall.shape)
        after = np.clip(before * factors, right / _FARTHEST, right * _FARTHEST)
        self._wall = self._wall * (after / before)
        for row in range(self.num_envs):
            self._advance(row, after[row])
        self._steps += 1
        gains = (np.abs(right - before) - np.abs(right - after)) / right
        errors = np.abs(after / right - 1)
        if 2 * self._steps > self.spec.horizon:
            mean_errors = np.abs((after / right).mean(axis=(1, 2, 3)) - 1)
            self._errors = self._errors + np.stack([mean_errors, errors.mean(axis=(1, 2, 3))], axis=1)
        rewards = (gains + (errors < 0.01)).reshape(self.num_envs, -1)
        return self._outcome(rewards)

    def stress(self) -> Array:
        """The stresses of agents ``[E, 2, patches]``."""
        if self._options.viscosity:
            return self._wall * self.speeds(MATCHED) / self.height
        return self._wall

    def render(self, index: int) -> Scene:
        """Both walls with their stresses, and the profile of velocities next to the log law."""
        return drawn(self.channels[self._which[index]], self.grid, self._velocity[index], self.stress()[index])

    def save(self) -> dict[str, NDArray[Any]]:
        """See `marless.functions.environments.resumable`."""
        arrays = {"velocity": self._velocity, "wall": self._wall, "which": self._which, "errors": self._errors}
        return {**{name: array.copy() for name, array in arrays.items()}, "steps": np.full(self.num_envs, self._steps)}

    def resume(self, saved: Mapping[str, NDArray[Any]], rng: np.random.Generator) -> Observation:
        """See `marless.functions.environments.resumable`."""
        self._rng, self._steps = rng, int(saved["steps"][0])
        self._velocity, self._wall = saved["velocity"].copy(), saved["wall"].copy()
        self._which, self._errors = saved["which"].copy(), saved["errors"].copy()
        return self._observation()

    def close(self) -> None:
        """Holds nothing to free but memory."""

    @property
    def height(self) -> float:
        """Of the matched cell above its wall, in h."""
        return (MATCHED - 0.5) * self.grid.sizes[0]

    def _right(self) -> Array:
        """τ* of each channel ``[E, 1, 1, 1]``."""
        return np.array([self.channels[which].stress for which in self._which])[:, None, None, None]

    def _viscosities(self) -> Array:
        return np.array([self.channels[which].viscosity for which in self._which])[:, None, None, None]

    def _advance(self, row: int, stress: Array) -> None:
        along, across = self._weights
        magnitudes = along @ stress @ across.T
        velocity, options = self._velocity[row], self._options
        for _ in range(options.solver_steps):
            advance(
                self.grid,
                velocity,
                options.dt,
                self.channels[self._which[row]].viscosity,
                lambda flow: directed(flow, magnitudes),
                options.smagorinsky,
            )
        number = courant(self.grid, velocity, options.dt)
        if not number < _MOST_COURANT:
            raise EnvironmentFault(
                f"{self._name}: the Courant number is {number:.2f}, and the time scheme is stable below"
                f" {_MOST_COURANT:.2f}. Set task.options.dt below {options.dt}"
            )

    def _outcome(self, rewards: Array) -> Step:
        is_last = self._steps == self.spec.horizon
        observation, final = self._observation(), None
        metrics = {}
        if is_last:
            if self.before_reset is not None:
                self.before_reset()
            errors = self._errors / (self.spec.horizon - self.spec.horizon // 2)
            metrics = {"stress_error": errors[:, 0], "patch_stress_error": errors[:, 1]}
            final, observation = observation, self.reset(self._rng)
        terminated, truncated = np.zeros(rewards.shape, np.bool_), np.full(self.num_envs, is_last)
        return Step(observation, rewards, terminated, truncated, truncated.copy(), final, metrics)

    def speeds(self, cell: int) -> Array:
        """The speeds of the mean flow above patches ``[E, 2, patches]``, in the cells so far from the walls."""
        (along, across), (_, nx, nz) = self._patches, self.grid.cells
        means = []
        for velocity in self._velocity:
            cells = parallel(velocity, cell).reshape(2, 2, along, nx // along, across, nz // across)
            means.append(np.hypot(*cells.mean(axis=(3, 5))))
        return np.stack(means)

    def _observation(self) -> Observation:
        below, speeds, above = (self.speeds(cell) for cell in range(MATCHED - 1, MATCHED + 2))
        friction = np.sqrt(self.stress())
        values = slope_and_intercept(
            speeds / friction,
            (above - below) / np.log((MATCHED + 0.5) / (MATCHED - 1.5)) / friction,
            self.height * friction / self._viscosities(),
        )
        flat = values.reshape(self.num_envs, len(self.spec.agents), 2).astype(np.float32)
        return Observation((flat,), np.ones(flat.shape[:2], np.bool_))


def slope_and_intercept(speed: Array, slope: Array, height: Array) -> Array:
    """Return the observations ``[..., 2]``: 1/κ_m and B_m. Arguments are in wall units. `slope` is ∂u / ∂ ln y."""
    return np.stack([slope, speed - slope * np.log(height)], axis=-1)


def _weights(cells: int, patches: int) -> Array:
    """Return the share of each patch at the centre of each cell ``[cells, patches]``, linear between centres."""
    places = (np.arange(cells) + 0.5) * patches / cells - 0.5
    distances = np.abs((places[:, None] - np.arange(patches) + patches / 2) % patches - patches / 2)
    weights = np.maximum(1 - distances, 0)
    shares: Array = weights / weights.sum(axis=1, keepdims=True)
    return shares


def _numbers(name: str, option: str, text: str, separator: str, kind: type) -> tuple[Any, ...]:
    try:
        return tuple(kind(part) for part in text.split(separator))
    except ValueError:
        raise ValueError(
            f"{name}: task.options.{option} is {text!r}. Write numbers with {separator!r} between them"
        ) from None
