"""The environment around a game in C."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from marless.functions.environments.base import ActionArray, EnvironmentFault, EnvSpec, Observation, Step
from marless.functions.errors import MissingExtra
from marless.functions.native.games.fields import GAMES, OUTPUTS
from marless.functions.native.kernels import are_built, kernels, start_of

# The results of several steps are one block of memory: of at most so many steps, and at most so many bytes. A block of
# this size is used again after it is freed. Small ones go back to the system, and cost page faults.
_MOST_SLOTS, _PAGE_BYTES = 32, 2**20

_OBSERVED, _RESULTS = {"values", "masks", "state", "alive"}, ("rewards", "terminated", "truncated", "ended")
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
        self._slots = self._slot = max(1, min(_MOST_SLOTS, _PAGE_BYTES // self._outputs.itemsize))
        fields, values = GAMES[self.game], self._values(sizes)
        self._row = np.array([0 if field in OUTPUTS else values[field] for field in fields], np.int64)
        self._offsets = {fields.index(field): place for field, (_, place, *_) in (self._outputs.fields or {}).items()}
        self._advance, self._renew, self._look = (
            getattr(kernels(), f"{self.game}_{call}") for call in ("step", "reset", "observe")
        )

    def _values(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the fields in C that stay the same: sizes, and addresses of the state and the inputs."""
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
        slot = self._next_slot()
        self._renew(slot.row, None)
        return self._observe(slot)

    def step(self, actions: tuple[ActionArray, ...]) -> Step:
        """Steps all environments at once. Raises `ValueError` for a missing action."""
        self._inputs["actions"][...] = actions[0]
        slot = self._next_slot()
        count = self._advance(slot.row)
        if count < 0:
            raise ValueError(f"an action is not from 0 to {self.spec.classes[0].actions - 1}")
        page, index = slot.page, slot.place
        rewards, terminated, truncated, over = (page[field][index] for field in _RESULTS)
        if not count:
            return Step(self._observe(slot), rewards, terminated, truncated, over)
        if self.before_reset is not None:
            self.before_reset()
        which, after = start_of(over), self._next_slot()
        for field in _OBSERVED & after.page.keys():
            after.page[field][after.place] = 0  # also where an episode continues
        final = self._observe(after, which)
        self._renew(slot.row, which)
        metrics = {name: page["metrics"][index, place] for place, name in enumerate(self._metrics)}
        return Step(self._observe(slot), rewards, terminated, truncated, over, final, metrics)

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
        return self._observe(self._next_slot())

    def close(self) -> None:
        """Holds nothing to free but memory."""

    def _next_slot(self) -> "_Slot":
        """Return room for the results of a step. Nothing writes to earlier results again."""
        if self._slot == self._slots:
            results, self._slot = np.empty(self._slots, self._outputs), 0
            self._page = {field: results[field] for field in self._outputs.names or ()}
            self._rows, places = np.tile(self._row, (self._slots, 1)), results.itemsize * np.arange(self._slots)
            self._rows[:, [*self._offsets]] = start_of(results) + places[:, None] + [*self._offsets.values()]
            self._start = start_of(self._rows)
        index, self._slot = self._slot, self._slot + 1
        return _Slot(self._page, index, self._start + index * self._rows.strides[0], self._rows)

    def _observe(self, slot: "_Slot", which: int | None = None) -> Observation:
        self._look(slot.row, which)
        page, index = slot.page, slot.place
        return Observation(
            (page["values"][index].swapaxes(0, 1),),
            page["alive"][index] if "alive" in page else self._everyone,
            (page["masks"][index].swapaxes(0, 1),) if "masks" in page else None,
            page["state"][index] if "state" in page else None,
        )


class _Slot(NamedTuple):
    """Room for the results of a step: one index of a page's arrays, and the address of the structure in C with them."""

    page: dict[str, NDArray[Any]]
    place: int
    row: int
    # The structures of the page.
    rows: NDArray[np.int64]


def _outputs(spec: EnvSpec, num_envs: int, metrics: int, is_mortal: bool) -> list[tuple[str, DTypeLike, Shape]]:
    """Return the name, the type and the shape of each array that a step writes."""
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
