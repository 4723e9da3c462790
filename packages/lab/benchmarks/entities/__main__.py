"""Train the arms of a registered file, one after another, and print their tables.

    python -m benchmarks.entities docs/results/entities.jsonl

The records `defaults.jsonl`, `games.jsonl`, `roles.jsonl` and `teams.jsonl` have the arms of the files in this folder.
A record has one line per run. Only missing runs are trained. A changed registration or
program makes another run.
"""

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

from benchmarks.entities.registered import load
from benchmarks.entities.runs import Run, key, measure, program
from benchmarks.entities.table import text
from benchmarks.records import json_lines
from marless.reports.provenance import written_by
from marless.studies.seeds import seeds_of


def main() -> None:
    """Run the command line."""
    parser = ArgumentParser(prog="python -m benchmarks.entities", description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--lists", nargs="+", metavar="LIST", help="lists of the file. Default: all")
    parser.add_argument("--only", nargs="+", default=[], metavar="ARM", help="arms to train, also such that are off")
    parser.add_argument("--seeds", help="other seeds than registered, to try the command, such as 100,101")
    parser.add_argument("--steps", type=int, help="another length of runs than registered, to try the command")
    parser.add_argument("--workers", type=int, default=2, help="weights do not depend on it. Default: 2")
    parser.add_argument("--table", action="store_true", help="print the tables of the record, and train nothing")
    options = parser.parse_args()
    file, faults = load(options.record.stem), 0
    runs = json_lines.read(options.record, Run)
    for study in file.lists:
        if options.table or (options.lists and study.name not in options.lists):
            continue
        arms = file.arms(study, options.steps)
        chosen = [arm for arm in arms if (arm.name in options.only if options.only else arm.name not in study.off)]
        for seed in seeds_of(options.seeds or study.seeds):
            for arm in chosen:
                if (study.name, arm.name, seed, arm.registration, program()) in map(key, runs):
                    continue
                print(f"{study.name}: {arm.name}, seed {seed}", file=sys.stderr, flush=True)
                try:
                    runs.append(measure(arm, seed, options.workers))
                except subprocess.CalledProcessError as error:
                    print(f"it failed: {error}", file=sys.stderr, flush=True)
                    faults += 1
                json_lines.write(options.record, runs)
    print(text(file, runs, options.steps), written_by(), sep="\n\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
