"""The 32 runs of examples/tenants.toml as they are measured: a task that only computes, and one whose rewards wait."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.language.waiting_judge import MEDIAN_S
from benchmarks.launch import ROOT
from benchmarks.pipeline.ways import FEW_EVALUATIONS
from marless.coordinator.config.nested_tables import flatten
from marless.studies.study_file import load

EXAMPLE = ROOT / "examples" / "tenants.toml"


@dataclass(frozen=True)
class Workload:
    """`tokens` are written in each of `episodes` of a round, and runs have so many `rounds`."""

    name: str
    slots: int
    rounds: int
    episodes: int
    tokens: int
    settings: Mapping[str, object]
    seeds: str = "1-8"
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """Its name."""
        return str(self.settings.get("task.name", "text/relay"))

    @property
    def tokens_of_run(self) -> int:
        """That all roles write in training."""
        return self.rounds * self.episodes * self.tokens

    def file(self, runs_at_once: int = 64, models: Sequence[Path] = ()) -> str:
        """The study's file; with `models` each tenant has one of its own."""
        study = load(EXAMPLE)
        own = {"stop.rounds": self.rounds, "actors.num_envs": self.episodes, **FEW_EVALUATIONS, **self.settings}
        lines = [f'seeds = "{self.seeds}"', f"pool.workers = {self.slots}", f"pool.runs = {runs_at_once}"]
        lines += [f"base.{key} = {json.dumps(value)}" for key, value in {**flatten(study.base), **own}.items()]
        for number, setting in enumerate(study.setting):
            values = flatten(setting.values)
            if models:
                values["base.model"] = str(models[number])
            lines += ["[[setting]]", f'name = "{setting.name}"', f'owner = "{setting.owner}"']
            lines += [f"values.{key} = {json.dumps(value)}" for key, value in values.items()]
        return "\n".join(lines) + "\n"


def computing(rounds: int) -> Workload:
    """The relay, on a slot for each of two cores: nothing waits."""
    return Workload("relay, which computes", 2, rounds, 128, 2, {})


def waiting(rounds: int, median_s: float) -> Workload:
    """Programs that a judge far away grades, who takes so long, on a slot for every second run: a task that waits for
    him keeps no core. He never has a queue."""
    settings = {
        "task.name": "text/check",
        "resources.judge.serve": "benchmarks.language.waiting_judge:grade",
        "resources.judge.slots": 16 * 8,
        "resources.judge.timeout_s": 60,
    }
    return Workload(
        "check, which waits for its judge", 16, rounds, 8, 4, settings, environment={MEDIAN_S: str(median_s)}
    )


def large(slots: int, model: Path) -> Workload:
    """Eight runs by a large model, whose memory is measured."""
    name = f"SmolLM2, {slots} worker{'s' * (slots > 1)}"
    return Workload(name, slots, 2, 32, 2, {"base.model": str(model), "base.layers": 4}, seeds="1-2")
