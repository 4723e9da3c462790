"""Plan runs for deadlines in accounts with unknown tails, train the chosen plans, and print the tables.

    python -m benchmarks.plan docs/results/plan.jsonl

Only missing tasks are measured. A changed registration or program measures them again.
"""

import json
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

import msgspec

from benchmarks.launch import environment_with
from benchmarks.plan.pairs import measure, program
from benchmarks.plan.registered import Pair, load, read
from benchmarks.plan.table import text
from benchmarks.plan.training import train_plans
from benchmarks.records import json_lines
from marless.reports.provenance import written_by

WAITING = "waiting = benchmarks.pipeline.waiting_task:make"


def main() -> None:
    """Run the command line."""
    parser = ArgumentParser(prog="python -m benchmarks.plan", description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--seed", type=int, help="another seed than registered, to try the command")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="default: all")
    parser.add_argument("--pairs", action="store_true", help="measure pairs alone, and train nothing")
    parser.add_argument("--here", metavar="TASK", help="print the pairs of a task as JSON, in this process")
    parser.add_argument("--table", action="store_true", help="print the tables of the record")
    options = parser.parse_args()
    file = load()
    seed = file.seed if options.seed is None else options.seed
    if options.here:
        pairs = measure(file, seed, options.here, lambda line: print(line, file=sys.stderr, flush=True))
        print(msgspec.json.encode(pairs).decode())
        return
    records = read(options.record)
    for task in [] if options.table else options.tasks or file.tasks:
        known = [one for one in records if one.task == task and one.origin.registration == file.registration]
        if not any(isinstance(one, Pair) and one.origin.program == program() for one in known):
            print(f"pairs of {task}", file=sys.stderr, flush=True)
            records += _pairs(task, seed)
            json_lines.write(options.record, records)
        if not options.pairs:
            for run in train_plans(file, task, tuple(records), WAITING):
                records.append(run)
                json_lines.write(options.record, records)
    print(text(file, records), written_by(), sep="\n\n")


def _pairs(task: str, seed: int) -> list[Pair]:
    """Return the pairs of a task. Its process has the environment that waits."""
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        command = [sys.executable, "-m", "benchmarks.plan", "", "--here", task, "--seed", str(seed)]
        variables = environment_with(Path(folder) / "site", WAITING)
        done = subprocess.run(command, check=True, env=variables, stdout=subprocess.PIPE)
        return msgspec.convert(json.loads(done.stdout.splitlines()[-1]), list[Pair])


if __name__ == "__main__":
    main()
