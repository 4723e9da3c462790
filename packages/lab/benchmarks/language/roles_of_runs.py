"""Writes the returns of each role of finished runs as a table, a row for each run and role.

    python -m benchmarks.language.roles_of_runs . docs/results/language/roles.csv

Runs are in runs/ of the folder, and each is called ``<arm>-s<seed>``. `first` is a role's mean return in the first
round, before any learning, and `last` its mean in the last ten rounds. `first_success` and `last_success` are the same
for the metric `success`, or '' if a task has none.
"""

import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.lag.stored_runs import LAST_ROUNDS
from marless.runs.folder import RunFolder
from marless.runs.stored_run import look


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of a finished run."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    with look(RunFolder(folder)) as stored_run:
        roles = stored_run.saved_state.env_spec.agents
    arm = folder.name.rpartition("-s")[0]
    success = [line["env_metrics"].get("success") for line in lines]
    for place, role in enumerate(roles):
        yield {
            "arm": arm,
            "seed": summary["seed"],
            "role": role,
            "commit": summary["commit"][:8],
            "rounds": summary["rounds"],
            "env_steps": summary["env_steps"],
            **_ends("", [line["agent_returns"][place] for line in lines]),
            **_ends("_success", success),
            "train_seconds": f"{summary['train_seconds']:.1f}",
            "weights_sha256": summary["weights_sha256"][:16],
        }


def _ends(suffix: str, values: Sequence[float | None]) -> dict[str, str]:
    numbers = [value for value in values if value is not None]
    if not numbers:
        return {f"first{suffix}": "", f"last{suffix}": ""}
    return {f"first{suffix}": f"{numbers[0]:.4f}", f"last{suffix}": f"{fmean(numbers[-LAST_ROUNDS:]):.4f}"}


def main(arguments: Sequence[str]) -> None:
    """Writes the table. An unfinished run raises `FileNotFoundError`."""
    folder, table = map(Path, arguments)
    runs = sorted(path for path in (folder / "runs").iterdir() if not path.is_symlink())
    lines = [line for run in runs for line in rows(run)]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
