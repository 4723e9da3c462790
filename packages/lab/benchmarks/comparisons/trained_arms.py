"""Trains the arms of a study seed by seed, one run after another, and writes a table with a row for each run.

The file of a study has `settings` of all arms and, by name, the `arms` in the order of their training. ``{seed}`` means
the seed. Runs are ``runs/<file>-<arm>-s<seed>``. Ended runs are not trained again, and a killed run continues, so the
same command continues after an interruption. The table is written again after every run.

`processor_seconds` count the whole command with its workers, or are '' for a run that was resumed.
"""

import csv
import os
import resource
import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from marless.runs.folder import RunFolder
from marless.runs.stored_run import look

MARLESS = (str(Path(sys.executable).with_name("marless")),)


def train(run: str, settings: Sequence[str]) -> float | None:
    """Train the run to its end, if it has not ended.

    Returns the processor seconds, or None for a continued or ended run. Raises `CalledProcessError`.
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


def train_arms(program: str, row: Callable[[RunFolder], dict[str, Any]], arguments: Sequence[str]) -> None:
    """Trains and writes the table, as the arguments of the `program` say. `row` is asked for the numbers of a finished
    run."""
    parser = ArgumentParser(prog=f"python -m {program}")
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
            numbers = row(RunFolder(Path("runs") / run))
            rows[arm, str(seed)] = {"arm": arm, "seed": seed, "processor_seconds": measured, **numbers}
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
