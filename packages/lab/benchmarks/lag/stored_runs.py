"""Writes the returns of a study's runs as a table, one row a run.

    python -m benchmarks.lag.stored_runs studies/foraging docs/results/lag/foraging.csv --target 0.9

`first_return` is the mean of the first round, and `training_return` the mean over the last ten rounds.
`env_steps_to_target` are the steps of the first evaluation that returned the target or more.
"""

import csv
import json
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

LAST_ROUNDS = 10


def row(folder: Path, target: float | None) -> dict[str, Any]:
    """The numbers of the finished run in the folder, which is called ``<arm>-s<seed>``."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    evaluations = [line["evaluation"] for line in lines if "evaluation" in line]
    to_target = [one["env_steps"] for one in evaluations if target is not None and fmean(one["returns"]) >= target]
    return {
        "arm": folder.name.rpartition("-s")[0],
        "seed": summary["seed"],
        "commit": summary["commit"][:8],
        "env_steps": summary["env_steps"],
        "first_return": f"{lines[0]['return_mean']:.3f}",
        "training_return": f"{fmean(line['return_mean'] for line in lines[-LAST_ROUNDS:]):.3f}",
        "train_seconds": f"{summary['train_seconds']:.1f}",
        "final_return": f"{summary['final_return']['mean']:.3f}",
        "env_steps_to_target": min(to_target, default=""),
        "dollars": f"{summary['dollars']['total']:.5f}",
        "weights_sha256": summary["weights_sha256"][:16],
    }


def main(arguments: Sequence[str]) -> None:
    """Writes the table. An unfinished run raises `FileNotFoundError`."""
    parser = ArgumentParser(prog="python -m benchmarks.lag.stored_runs")
    parser.add_argument("study", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--target", type=float)
    options = parser.parse_args(arguments)
    rows = [
        row(folder, options.target) for folder in sorted((options.study / "runs").iterdir()) if not folder.is_symlink()
    ]
    with options.table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
