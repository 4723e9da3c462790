"""Trains the arms of a study of agents that speak and writes a table of the runs.

See `benchmarks.comparisons.trained_arms`.

    python -m benchmarks.language.train_arms benchmarks/language/relay.toml docs/results/language/controls_relay.csv

`first_success` is the share of right sampled episodes in the first round, and `last_success` the mean of the last ten
rounds. `greedy_success` belongs to the last evaluation.
"""

import json
import sys
from statistics import fmean
from typing import Any

from benchmarks.comparisons.trained_arms import train_arms
from benchmarks.lag.stored_runs import LAST_ROUNDS
from marless.runs.folder import RunFolder


def row(folder: RunFolder) -> dict[str, Any]:
    """The numbers of a finished run."""
    summary = json.loads((folder.path / "summary.json").read_text(encoding="utf-8"))
    lines = (folder.path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    success = [json.loads(line)["env_metrics"]["success"] for line in lines]
    return {
        "commit": summary["commit"][:8],
        "rounds": summary["rounds"],
        "train_seconds": f"{summary['train_seconds']:.1f}",
        "first_success": f"{success[0]:.3f}",
        "last_success": f"{fmean(success[-LAST_ROUNDS:]):.3f}",
        "greedy_success": f"{summary['final_env_metrics']['success']:.3f}",
        "weights_sha256": summary["weights_sha256"][:16],
    }


if __name__ == "__main__":
    train_arms("benchmarks.language.train_arms", row, sys.argv[1:])
