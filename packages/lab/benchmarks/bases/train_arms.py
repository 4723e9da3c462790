"""Trains the arms of a study of bases and writes a table of the runs. See `benchmarks.comparisons.trained_arms`.

    python -m benchmarks.bases.train_arms benchmarks/bases/spread_6.toml docs/results/bases/spread_6.csv

`parameters` are the numbers that the learner trains, and `learner_numbers` all numbers of its state except published
policies. `learner_bytes` and `policy_bytes` are the stored bytes of both in a round, with the answers of tasks.
"""

import json
import sys
from typing import Any

from benchmarks.comparisons.trained_arms import train_arms
from marless.reports.weights import gather
from marless.runs.folder import RunFolder
from marless.runs.stored_run import look


def row(folder: RunFolder) -> dict[str, Any]:
    """The numbers of a finished run."""
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


if __name__ == "__main__":
    train_arms("benchmarks.bases.train_arms", row, sys.argv[1:])
