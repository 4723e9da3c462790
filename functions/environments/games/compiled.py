"""The environment around a game in C."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from marless.functions.environments.base import ActionArray, EnvironmentFault, EnvSpec, Observation, Step
from marless.functions.errors import MissingExtra
from marless.functions.native.games.fields import GAMES, OUTPUTS
from marless.functions.native.kernels import are_built, kernels, start_of

# New memory costs page faults. So these last steps lend the memory of their results once it is unused.
_MOST_RESULTS = 4

_RESULTS = ("rewards", "terminated", "truncated", "ended")
_STATE = {"keys": np.uint64, "episode": np.int64, "clock": np.int64}

Shape = tuple[int, ...]
# The type and the shape of each array by name.
Shapes = Mapping[str, tuple[DTypeLike, Shape]]


class CompiledEnvironment:
    """E environments of one game, see functions/native/games/game.h.

    All random numbers of an environment derive from its key, which `reset` draws, the episode and the step. So an
    environment has the same bytes in a block of any size.
    """

    # The name of the game in C.
    game: ClassVar[str]

    def __init__(
        self,
        name: str,
        spec: EnvSpec,
        num_envs: int,
        sizes: Mapping[str, int],
        tables: Mapping[str, NDArray[Any]],
        state: Shapes,
        metrics: Sequence[str] = (),
        is_mortal: bool = False,
    ) -> None:
        """`sizes`, `tables` and `state` (types and shapes) are the game's own fields in C. Agents of one class play.

        Raises `MissingExtra` without compiled kernels.
        """
        if not are_built():
            raise MissingExtra(f"{name} needs compiled kernels: install a C compiler, then marless again")
        self.spec, self.num_envs = spec, num_envs
        # Called when episodes have ended, before their reset: their last states can be drawn then.
        self.before_reset: Callable[[], None] | None = None
        shapes = {field: (kind, (num_envs,)) for field, kind in _STATE.items()} | dict(state)
        # The state by name. To write into an array changes the game.
        self.arrays = {field: np.zeros(shape, kind) for field, (kind, shape) in shapes.items()}
        by_agent = num_envs, len(spec.agents)
        self._metrics, self._everyone = tuple(metrics), np.ones(by_agent, np.bool_)
        self._inputs = {"actions": np.zeros(by_agent, np.int64)}
        self._inputs |= {table: np.ascontiguousarray(array) for table, array in tables.items()}
        self._outputs = np.dtype(_outputs(spec, num_envs, len(metrics), is_mortal), align=True)
        values = self._values(sizes) | dict.fromkeys(OUTPUTS, 0)
        self._row = np.array([values[field] for field in GAMES[self.game]], np.int64)
        self._results: list[_Results] = []
        self._advance, self._renew, self._look = (
            getattr(kernels(), f"{self.game}_{call}") for call in ("step", "reset", "observe")
        )

    def _values(self, sizes: Mapping[str, int]) -> dict[str, int]:
        (players,) = self.spec.classes
        return {
            "envs": self.num_envs,
            "agents": len(self.spec.agents),
            "features": players.observation_size,
            "choices": players.actions,
            "state_size": self.spec.state_size,
            **sizes,
            **{field: start_of(array) for field, array in (self.arrays | self._inputs).items()},
        }

    def reset(self, rng: np.random.Generator) -> Observation:
        """Return the first observation of every environment. `rng` draws one key for each."""
        return self.reset_blocks((rng,))

    def reset_blocks(self, rngs: Sequence[np.random.Generator]) -> Observation:
        """Resets every environment, in as many equal independent blocks as there are generators.

        Raises `ValueError` when the number of environments is not a multiple of the number of generators.
        """
        if not rngs or self.num_envs % len(rngs):
            raise ValueError(f"{self.num_envs} environments are not {len(rngs)} equal blocks")
        size = self.num_envs // len(rngs)
        self.arrays["keys"][:] = np.concatenate([rng.integers(2**64, size=size, dtype=np.uint64) for rng in rngs])
        self.arrays["episode"][:] = 0
        results = self._free_results()
        self._renew(results.row, None)
        return self._observe(results)

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps all environments at once. Raises `ValueError` for an action out of range."""
        self._inputs["actions"][...] = actions[0]
        results = self._free_results()
        if (count := self._advance(results.row)) < 0:
            raise ValueError(f"an action is not from 0 to {self.spec.classes[0].actions - 1}")
        rewards, terminated, truncated, over = map(results.lend, _RESULTS)
        if not count:
            return Step(self._observe(results), rewards, terminated, truncated, over)
        if self.before_reset is not None:
            self.before_reset()
        which = start_of(over)
        final = self._observe(self._free_results(), which)
        self._renew(results.row, which)
        metrics = {name: results.lend("metrics")[place] for place, name in enumerate(self._metrics)}
        return Step(self._observe(results), rewards, terminated, truncated, over, final, metrics)

    def save(self) -> dict[str, NDArray[Any]]:
        """See `marless.functions.environments.resumable`."""
        return {name: array.copy() for name, array in self.arrays.items()}

    def resume(self, saved: Mapping[str, NDArray[Any]], rng: np.random.Generator) -> Observation:
        """See `marless.functions.environments.resumable`. Keys are saved, so `rng` draws nothing.

        Raises `EnvironmentFault` for episodes of another program.
        """
        if saved.keys() != self.arrays.keys():
            raise EnvironmentFault(f"the episodes of {self.game} were saved by another program: begin a new run")
        for name, array in self.arrays.items():
            array[...] = saved[name]
        return self._observe(self._free_results())

    def close(self) -> None:
        """Holds nothing to free but memory."""

    def _free_results(self) -> "_Results":
        """Return room for the results of a step. Results in use keep their values."""
        if not (free := [results for results in self._results if results.is_free()]):
            free = [_Results(self._outputs, GAMES[self.game], self._row)]
            self._results = [*free, *self._results[: _MOST_RESULTS - 1]]
        return free[0]

    def _observe(self, results: "_Results", which: int | None = None) -> Observation:
        """The observation. `which`, the address of flags ``[E]``, limits new values to these environments."""
        self._look(results.row, which)
        return Observation(
            (results.lend("values").swapaxes(0, 1),),
            results.lend("alive") if "alive" in results.arrays else self._everyone,
            (results.lend("masks").swapaxes(0, 1),) if "masks" in results.arrays else None,
            results.lend("state") if "state" in results.arrays else None,
        )


class _Results:
    """Room for the results of a step: arrays in one block, and the address `row` of the structure in C with them."""

    def __init__(self, outputs: "np.dtype[Any]", fields: Sequence[str], row: NDArray[np.int64]) -> None:
        self._block, self._structure = np.zeros(1, outputs), row.copy()
        self.arrays: dict[str, NDArray[Any]] = {name: self._block[name][0] for name in outputs.names or ()}
        for name, array in self.arrays.items():
            self._structure[fields.index(name)] = start_of(array)
        self.row, self._references = start_of(self._structure), sys.getrefcount(self._block)

    def lend(self, name: str) -> NDArray[Any]:
        """Return an array that counts as a reference to the block, like all views of it."""
        return self.arrays[name][...]

    def is_free(self) -> bool:
        """Return whether all arrays are unused."""
        return sys.getrefcount(self._block) == self._references


def _outputs(spec: EnvSpec, num_envs: int, metrics: int, is_mortal: bool) -> list[tuple[str, DTypeLike, Shape]]:
    (players,), agents, flag = spec.classes, len(spec.agents), np.bool_
    outputs: list[tuple[str, DTypeLike, Shape]] = [
        ("values", np.float32, (agents, num_envs, players.observation_size)),
        ("masks", flag, (agents, num_envs, players.actions)),
        ("state", np.float32, (num_envs, spec.state_size)),
        ("alive", flag, (num_envs, agents)),
        ("rewards", np.float64, (num_envs, agents)),
        ("terminated", flag, (num_envs, agents)),
        ("truncated", flag, (num_envs,)),
        ("ended", flag, (num_envs,)),
        ("metrics", np.float64, (metrics, num_envs)),
    ]
    missing = {"masks": not spec.masked, "state": not spec.state_size, "alive": not is_mortal, "metrics": not metrics}
    return [output for output in outputs if not missing.get(output[0])]
