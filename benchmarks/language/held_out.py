"""Trains the arms of a study on a part of the pairs of `text/relay`, and writes how they do on both parts; see
`benchmarks.comparisons.trained_arms`.

    python -m benchmarks.language.held_out benchmarks/language/parted.toml docs/results/language/held_out_relay.csv

`last_success` is that of sampled episodes on the trained pairs, the mean of the last ten rounds. `rounds`, `seen` and
`unseen` have a number for each evaluation: the rounds that were learned by then, and the success of greedy episodes on
the trained pairs and on those that were not.
"""

import json
import sys
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from benchmarks.comparisons.trained_arms import train_arms
from benchmarks.lag.stored_runs import LAST_ROUNDS
from marless.runs.folder import RunFolder


def row(folder: RunFolder) -> dict[str, Any]:
    """The numbers of a finished run."""
    summary = json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    evaluations = [line["evaluation"] for line in lines if "evaluation" in line]
    parts = [_parts(one["env_metrics"]) for one in evaluations] + [_parts(summary["final_env_metrics"])]
    return {
        "commit": summary["commit"][:8],
        "last_success": f"{fmean(line['env_metrics']['success'] for line in lines[-LAST_ROUNDS:]):.3f}",
        "rounds": " ".join(str(number) for number in [*(one["round"] for one in evaluations), summary["rounds"]]),
        "seen": " ".join(f"{seen:.3f}" for seen, _ in parts),
        "unseen": " ".join(f"{unseen:.3f}" for _, unseen in parts),
        "weights_sha256": summary["weights_sha256"][:16],
    }


def _parts(metrics: Mapping[str, float]) -> tuple[float, float]:
    """The success on trained pairs, and on the others."""
    unseen = metrics["unseen"]
    return (metrics["success"] - metrics["unseen_success"]) / (1 - unseen), metrics["unseen_success"] / unseen


if __name__ == "__main__":
    train_arms("benchmarks.language.held_out", row, sys.argv[1:])
