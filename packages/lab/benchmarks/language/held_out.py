"""Trains the arms of a study on a part of the pairs of `text/relay`, and writes the success on all three parts.

See `benchmarks.comparisons.trained_arms`.

    python -m benchmarks.language.held_out benchmarks/language/parted_relay.toml docs/results/language/parted_relay.csv

`last_success` is the success of sampled episodes on the trained pairs, the mean of the last ten rounds. `rounds`,
`train` and `validation` have a number for each evaluation. These are the rounds before it, and the success of greedy
episodes on the pairs of that part. `test` is the success on the third part at the end of the run. No setting is chosen
on it.
"""

import csv
import json
import sys
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from benchmarks.comparisons.trained_arms import train_arms
from benchmarks.lag.stored_runs import LAST_ROUNDS
from benchmarks.launch import ROOT
from marless.reports.text import markdown_table
from marless.runs.folder import RunFolder

ROUNDS = (10, 20, 40)
"""The rounds in the page's table. Runs are evaluated every ten rounds."""


def row(folder: RunFolder) -> dict[str, Any]:
    """The numbers of a finished run."""
    summary = json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    evaluations = [line["evaluation"] for line in lines if "evaluation" in line]
    every = [*(one["env_metrics"] for one in evaluations), summary["final_env_metrics"]]
    return {
        "commit": summary["commit"][:8],
        "last_success": f"{fmean(line['env_metrics']['success'] for line in lines[-LAST_ROUNDS:]):.3f}",
        "rounds": " ".join(str(number) for number in [*(one["round"] for one in evaluations), summary["rounds"]]),
        "train": " ".join(f"{_trained(metrics):.3f}" for metrics in every),
        "validation": " ".join(f"{_of_part(metrics, 'validation'):.3f}" for metrics in every),
        "test": f"{_of_part(every[-1], 'test'):.3f}",
        "weights_sha256": summary["weights_sha256"][:16],
    }


def table() -> str:
    """Return the success on seen and unseen pairs by round, mean over seeds, as a table of the stored runs."""
    rows = []
    for record, arm in (("relay", "relay"), ("smollm2", "smollm2"), ("smollm2", "deep")):
        with (ROOT / "docs" / "results" / "language" / f"held_out_{record}.csv").open(encoding="utf-8") as file:
            runs = [run for run in csv.DictReader(file) if run["arm"] == arm]
        for part in ("seen", "unseen"):
            values = [[float(word) for word in run[part].split()] for run in runs]
            means = [f"{fmean(by_seed):.2f}" for by_seed in zip(*values, strict=True)]
            shown = [means[round_ // 10 - 1] for round_ in ROUNDS]
            rows.append([f"{arm}, {part}", *shown, means[-1], f"{min(run[-1] for run in values):.3f}"])
    return markdown_table(["", *map(str, ROUNDS), "at the end", "worst seed"], rows, aligned=False)


def _trained(metrics: Mapping[str, float]) -> float:
    """Return the success on the pairs of neither held-out part."""
    right = metrics["success"] - metrics["validation_success"] - metrics["test_success"]
    return right / (1 - metrics["validation"] - metrics["test"])


def _of_part(metrics: Mapping[str, float], part: str) -> float:
    return metrics[f"{part}_success"] / metrics[part]


if __name__ == "__main__":
    train_arms("benchmarks.language.held_out", row, sys.argv[1:])
