"""Trains the arms of a study of bases, seed by seed and one run after another, and writes a table of the runs.

    python -m benchmarks.bases.train_arms benchmarks/bases/spread_6.toml docs/results/adapters/spread_6.csv

The file has `settings` of all arms and, by name, the `arms` in the order of their training; ``{seed}`` stands for the
seed. Runs are ``runs/<file>-<arm>-s<seed>``. Those that have ended are not trained again and one that was killed goes
on, so the same command goes on where it was stopped. The table is written anew after every run.

`processor_seconds` are those of the whole command with its workers; '' for a run that was resumed. `parameters` are the
numbers that the learner trains, `learner_numbers` all those of its state but published policies, `learner_bytes` and
`policy_bytes` what a round stores of both, with the answers of tasks.
"""

import csv
import json
import os
import resource
import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marless.reports.weights import gather
from marless.runs.folder import RunFolder
from marless.runs.stored_run import look

MARLESS = (str(Path(sys.executable).with_name("marless")),)


def train(run: str, settings: Sequence[str]) -> float | None:
    """Trains the run to its end, if it has not ended; the processor seconds, None for one that goes on or has ended.

    Raises `CalledProcessError`.
    """
    folder = RunFolder(Path("runs") / run)
    if folder.begun:
        with look(folder) as stored_run:
            ended = stored_run.state.status == "finished"
        if not ended:
            subprocess.run([*MARLESS, "resume", run, "--workers", "1"], check=True)
        return None
    before = _seconds()
    subprocess.run([*MARLESS, "train", *settings, "--run", run, "--workers", "1"], check=True)
    return _seconds() - before


def _seconds() -> float:
    """Processor seconds of the commands that have ended, with all their workers."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def row(run: str) -> dict[str, Any]:
    """The numbers of a finished run."""
    folder = RunFolder(Path("runs") / run)
    summary = json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))
    with look(folder) as stored_run:
        state = stored_run.saved_state
        sizes = {name: array.size for name, array in gather(state, stored_run.storage).items()}
    return {
        "commit": summary["commit"][:8],
        "env_steps": summary["env_steps"],
        "train_seconds": f"{summary['train_seconds']:.1f}",
        "final_return": f"{summary['final_return']['mean']:.3f}",
        "learner_numbers": sum(size for name, size in sizes.items() if not name.startswith("policy/")),
        "parameters": sum(size for name, size in sizes.items() if name.endswith("/first")),
        "learner_bytes": sum(ref.size for ref in {*state.objects} - {*state.policies}),
        "policy_bytes": sum(ref.size for ref in state.policies),
        "dollars": f"{summary['dollars']['total']:.5f}",
        "weights_sha256": summary["weights_sha256"][:16],
    }


def main(arguments: Sequence[str]) -> None:
    """Trains and writes the table."""
    parser = ArgumentParser(prog="python -m benchmarks.bases.train_arms")
    parser.add_argument("study", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    options = parser.parse_args(arguments)
    study = tomllib.loads(options.study.read_text(encoding="utf-8"))
    os.environ["OMP_NUM_THREADS"] = "1"
    rows = _read(options.table)
    for seed in options.seeds:
        for arm, own in study["arms"].items():
            run = f"{options.study.stem}-{arm}-s{seed}"
            settings = [text.format(seed=seed) for text in (*study["settings"], *own)]
            seconds = train(run, [*settings, f"seed={seed}"])
            before = rows.get((arm, str(seed)), {}).get("processor_seconds", "")
            measured = before if seconds is None else f"{seconds:.1f}"
            rows[arm, str(seed)] = {"arm": arm, "seed": seed, "processor_seconds": measured, **row(run)}
            _write(options.table, [*rows.values()])


def _read(table: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows that an earlier command wrote, by arm and seed."""
    if not table.exists():
        return {}
    with table.open(encoding="utf-8", newline="") as file:
        return {(line["arm"], line["seed"]): dict(line) for line in csv.DictReader(file)}


def _write(table: Path, rows: Sequence[dict[str, Any]]) -> None:
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
