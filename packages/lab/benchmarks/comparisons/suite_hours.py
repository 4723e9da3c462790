"""Estimates how many hours a suite takes: a dry run of every task and arm on seed 100, which is no seed of the results.

    python -m benchmarks.comparisons.suite_hours benchmarks/suite.toml /tmp/dry-run

A run's seconds grow with its environment steps, apart from start-up and the evaluations at its end.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from marless.ablation import rules_file
from marless.ablation.ablate import AblationView, ablate, plans
from marless.ablation.ablation_campaign import Ablation
from marless.backends import registry
from marless.comparison.finished_run import FinishedRun
from marless.coordinator.file_reading import read_json
from marless.infra.local.available_cores import cores
from marless.machine import this_machine
from marless.reports.text import markdown_table
from marless.runs.folder import SUMMARY
from marless.runs.summary import Summary
from marless.signals import Signals
from marless.studies.cells import Cell
from marless.studies.registration import TUNING
from marless.studies.seeds import seeds_of

STEPS = 20_000


def run_seconds(ablation: Ablation, run: FinishedRun, env_steps: int) -> float:
    """Return the seconds that a run of the dry run's arm would take for so many environment steps."""
    arm = next(arm for arm in ablation.arms if arm.name == run.arm)
    summary = read_json(Cell(arm, run.seed).folder(ablation.folder) / SUMMARY, Summary)
    return summary.wall_seconds - run.seconds + run.seconds * env_steps / run.env_steps


def main(arguments: Sequence[str]) -> None:
    """Train the missing runs in the folder and print a row for every task."""
    parser = ArgumentParser(prog="python -m benchmarks.comparisons.suite_hours")
    parser.add_argument("suite", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    file, jobs = rules_file.load(options.suite), cores()
    seeds = len(seeds_of(file.seeds))
    dry_run = replace(file, seeds=[TUNING])
    ablations = plans(dry_run, options.folder, str(options.suite), [f"stop.env_steps={STEPS}"], file)
    rows, all_hours, all_runs = [], 0.0, 0
    for task, ablation in zip(file.tasks, ablations, strict=True):
        with Signals() as signals:
            [result] = ablate([ablation], jobs, signals, AblationView(), partial(registry.listening, None, None))
        env_steps = rules_file.configuration(file, task, ()).stop.env_steps
        assert env_steps is not None
        seconds = [run_seconds(ablation, run, env_steps) for runs in result.runs.values() for run in runs.values()]
        hours, runs = sum(seconds) * seeds / jobs / 3600, len(ablation.arms) * seeds
        rows.append(
            (
                task.name,
                str(len(ablation.arms)),
                str(runs),
                f"{hours:.1f}",
                str(sum(map(len, result.failures.values()))),
            )
        )
        all_hours, all_runs = all_hours + hours, all_runs + runs
    rows.append(("all", "", str(all_runs), f"{all_hours:.1f}", ""))
    print(markdown_table(("task", "arms", "runs", "estimated hours", "arms that failed"), rows))
    print(f"\nregistration {file.registration}; {jobs} runs side by side; {this_machine(0)}")


if __name__ == "__main__":
    main(sys.argv[1:])
