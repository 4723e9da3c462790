"""The two workloads: runs with environments that wait, and runs that compute."""

from dataclasses import dataclass

_ALGORITHMS = {
    "ippo": {"algorithm.name": "ippo"},
    "mappo": {"algorithm.name": "mappo"},
    "iql": {"algorithm.name": "iql"},
    "vdn": {"algorithm.name": "vdn"},
}
_TASKS = ("spread", "tag", "reference", "speaker")


@dataclass(frozen=True)
class Workload:
    """`settings` by name of the setting, each trained with every one of `seeds`.

    `alone` is the placement of a run with the whole pool, "" for the algorithm's default. `shared` is the placement of
    one of many runs. `waits`: its environments wait."""

    slots: int
    seeds: tuple[int, ...]
    settings: dict[str, dict[str, object]]
    alone: str
    shared: str
    waits: bool

    @property
    def runs(self) -> list[tuple[str, dict[str, object]]]:
        """Names and settings of all runs."""
        return [
            (f"{name}-s{seed}", {**values, "seed": seed})
            for name, values in self.settings.items()
            for seed in self.seeds
        ]

    def file(self, placement: str, runs_at_once: int = 64, slots: int | None = None, part: slice = slice(None)) -> str:
        """A study's file with the settings of `part`."""
        lines = [f"seeds = {list(self.seeds)}", f"pool.workers = {slots or self.slots}", f"pool.runs = {runs_at_once}"]
        if placement:
            lines.append(f'base.placement.rule = "{placement}"')
        for name, values in list(self.settings.items())[part]:
            lines += ["[[setting]]", f'name = "{name}"']
            lines += [f"values.{key} = {_toml(value)}" for key, value in values.items()]
        return "\n".join(lines) + "\n"


def waiting() -> Workload:
    """32 runs of four algorithms on four tasks, two seeds each, on 16 slots."""
    common = {
        "actors.num_envs": 1,
        "actors.rollouts": 2,
        "stop.rounds": 8,
        "evaluation.every": 1_000,
        "evaluation.episodes": 2,
        "evaluation.final_episodes": 2,
        # A copy of one of these environments holds a picture of 2 MB.
        "evaluation.episodes_per_invocation": 4,
        "algorithm.hidden": [32],
    }
    return Workload(
        16,
        (1, 2),
        {
            f"{name}-{task}": {**common, **own, "task.name": f"pettingzoo:benchmarks.pool.waiting_tasks:{task}"}
            for name, own in _ALGORITHMS.items()
            for task in _TASKS
        },
        alone="",
        shared="packed",
        waits=True,
    )


def computing() -> Workload:
    """32 default runs of 40 rounds on two slots."""
    runs = {"default": {"algorithm.name": "mappo", "stop.rounds": 40}}
    return Workload(2, tuple(range(1, 33)), runs, alone="fused", shared="packed", waits=False)


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
