"""Random play in the environments of defaults.toml: `python -m benchmarks.entities.random_team`.

It adds a line to docs/results/defaults.jsonl for each environment that has none.
"""

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.entities.registered import Arm, load
from benchmarks.entities.runs import TASKS, Run, conditions, program
from benchmarks.launch import ROOT, environment_with
from benchmarks.records import json_lines
from marless.coordinator.config.loading import load as config_of
from scripts import random_play

RECORD = ROOT / "docs" / "results" / "defaults.jsonl"
NAME = "random"
# Lists of slow environments train for fewer steps.
_SLOW_STEPS = 100_000


def main() -> None:
    """Play, and write the record after each environment."""
    runs, file = json_lines.read(RECORD, Run), load(RECORD.stem)
    with tempfile.TemporaryDirectory(prefix="random-") as folder:
        environment_with(Path(folder) / "site", TASKS)
        sys.path.insert(0, f"{folder}/site")
        for study in file.lists:
            if not any((run.study, run.arm) == (study.name, NAME) for run in runs):
                runs.append(_played(next(arm for arm in file.arms(study) if arm.name == "new")))
                print(study.name, runs[-1].best, file=sys.stderr, flush=True)
                json_lines.write(RECORD, runs)


def _played(arm: Arm) -> Run:
    before, config = os.getloadavg()[0], config_of(None, arm.settings)
    is_slow = config.stop.env_steps is not None and config.stop.env_steps <= _SLOW_STEPS
    values = random_play.play(config.task, 32 if is_slow else 2000, config.opponents.side, 8 if is_slow else 250)
    return Run(
        study=arm.study,
        arm=NAME,
        seed=random_play.SEED,
        registration=arm.registration,
        env_steps=0,
        rate=0.0,
        steps_to={},
        seconds_to={},
        best=values["mean"],
        program=program(),
        **conditions(before),
    )


if __name__ == "__main__":
    main()
