"""The Multi-Particle Environments by task name; a scenario is one file, one entry here and one name in the registry."""

from collections.abc import Callable
from dataclasses import dataclass

from functions.environments.base import Task
from functions.environments.mpe.engine import Engine, Scenario, WorldState
from functions.environments.mpe.simple_adversary import SimpleAdversary
from functions.environments.mpe.simple_spread import SimpleSpread

__all__ = ["SCENARIOS", "Engine", "Entry", "WorldState", "make"]

# The length of an episode in mpe2, in steps.
_MAX_CYCLES = 25


@dataclass(frozen=True)
class Entry:
    """A scenario's constructor, which takes the number of agents and `options` by name, and the limits of a task."""

    build: Callable[..., Scenario]
    default_agents: int
    fewest_agents: int
    options: tuple[str, ...] = ()


SCENARIOS: dict[str, Entry] = {
    "mpe/simple_spread": Entry(SimpleSpread, default_agents=3, fewest_agents=1, options=("local_ratio",)),
    "mpe/simple_adversary": Entry(SimpleAdversary, default_agents=3, fewest_agents=2),
}


def make(task: Task, copies: int) -> Engine:
    """`copies` copies of the task; raises `ValueError`, one line naming what cannot be and what can."""
    if task.name not in SCENARIOS:
        raise ValueError(f"no task {task.name!r} (there are: {', '.join(sorted(SCENARIOS))})")
    if copies < 1:
        raise ValueError(f"{task.name}: copies is a whole number from 1, not {copies}")
    entry = SCENARIOS[task.name]
    valid = sorted((*entry.options, "max_cycles"))
    unknown = sorted(set(task.options) - set(valid))
    if unknown:
        raise ValueError(f"{task.name}: no option {unknown[0]!r} (there are: {', '.join(valid)})")
    agents = entry.default_agents if task.agents is None else task.agents
    if agents < entry.fewest_agents:
        raise ValueError(f"{task.name}: agents is a whole number from {entry.fewest_agents}, not {agents}")
    options = dict(task.options)
    max_cycles = options.pop("max_cycles", _MAX_CYCLES)
    if isinstance(max_cycles, bool) or not isinstance(max_cycles, int) or max_cycles < 1:
        raise ValueError(f"{task.name}: option max_cycles is a whole number from 1, not {max_cycles!r}")
    return Engine(entry.build(agents, **options), copies, max_cycles)
