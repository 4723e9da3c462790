"""The ways to serve actions that are compared."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.pipeline.ways import FEW_EVALUATIONS, ONE_STEP

# The trajectories of a round, over all runs, and the slots that suffice for them.
TRAJECTORIES, SLOTS = 32, 9
RUNS = 4
# Nine slots, split over four runs as evenly as they can be.
SPLIT = (3, 2, 2, 2)
# More cores than sleeping trajectories have processes.
_NO_LIMIT = 1000.0

Table = Mapping[str, object]


@dataclass(frozen=True)
class Way:
    """Runs of so many trajectories in each round. Every run asks the resource that stands at its place in `asked`.

    `tables` are the resources by name. With `reserved`, so many trajectories are played at once, each with a separate
    slot. `cores` are the machine's for everything.
    """

    tables: Mapping[str, Table]
    asked: tuple[str, ...]
    trajectories: int
    think_s: float
    size: float
    reserved: int = 0
    cores: float = _NO_LIMIT

    def settings(self) -> dict[str, object]:
        """Of each run."""
        return {
            **FEW_EVALUATIONS,
            **ONE_STEP,
            "task.name": "asking",
            "task.options.think_s": self.think_s,
            "task.options.size": self.size,
            "sharing.rule": "all",
            "algorithm.hidden": [8],
            "actors.num_envs": 1,
            "functions.actor.timeout_s": 600,  # a trajectory waits for the slot that it reserves
            "actors.rollouts": self.trajectories,
            **{f"resources.{name}.{key}": value for name, table in self.tables.items() for key, value in table.items()},
        }


def sleeping(duty: float, action_s: float, slots: int, reserved: int = 0) -> Way:
    """One run with trajectories that ask for the part `duty` of their time, for `action_s` on average."""
    return Way({"judge": _wait(slots)}, ("judge",), TRAJECTORIES, _think_s(duty, action_s), action_s, reserved)


def several(duty: float, action_s: float, slots: tuple[int, ...]) -> Way:
    """As many trajectories of four runs, which ask one resource, or each a separate resource with its part of the
    slots."""
    names = [f"judge{number}" for number in range(len(slots))]
    tables = {name: _wait(own) for name, own in zip(names, slots, strict=True)}
    asked = tuple(names[number % len(names)] for number in range(RUNS))
    return Way(tables, asked, TRAJECTORIES // RUNS, _think_s(duty, action_s), action_s)


def solving(trajectories: int, duty: float, action_s: float, size: float, cores: int, most: int) -> Way:
    """One run that asks a solver which computes for `action_s` in the mean, on at most so many of the cores."""
    table = {"serve": "benchmarks.resources.served:solve", "slots": cores, "cores": [1, most], "timeout_s": 60}
    think_s = _think_s(duty, action_s)
    return Way({"solver": table}, ("solver",), trajectories, think_s, size, cores=float(cores))


def _wait(slots: int) -> Table:
    return {"serve": "benchmarks.resources.served:wait", "slots": slots, "timeout_s": 60}


def _think_s(duty: float, action_s: float) -> float:
    return action_s * (1 - duty) / duty
