"""Processor time of a learner's round by kernels, by numpy, and of its matrix products alone, with AVX-512 and without:
the rows of docs/results/native-speed.csv.

    python -m benchmarks.native_speed
"""

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time

from benchmarks.launch import ROOT, environment
from benchmarks.learner import Round, products_alone, round_products
from marless.functions.native.variants import VARIANTS
from marless.reports import provenance

# Variables that keep numpy, OpenBLAS and the kernels from AVX-512.
AVX2 = {"NPY_DISABLE_CPU_FEATURES": "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"}
INSTRUCTIONS = {"AVX-512": {}, "AVX2": {**AVX2, "OPENBLAS_CORETYPE": "Haswell"}}
RUNS, ROUNDS = 5, 9


def main() -> None:
    """Prints the table. Each run is a process, and has the engines in turn."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.native_speed", description=__doc__)
    parser.add_argument("--medians", choices=INSTRUCTIONS, help="of one run alone, as JSON")
    options = parser.parse_args()
    if options.medians:
        print(json.dumps(medians(options.medians)))
        return
    table, commit = csv.writer(sys.stdout, lineterminator="\n"), (provenance.commit() or "")[:8]
    table.writerow(["instructions", "native ms", "numpy ms", "products ms", "commit"])
    for _ in range(RUNS):
        for instructions, variables in INSTRUCTIONS.items():
            command = [sys.executable, "-m", "benchmarks.native_speed", "--medians", instructions]
            done = subprocess.run(
                command, check=True, cwd=ROOT, env=environment() | variables, stdout=subprocess.PIPE, text=True
            )
            table.writerow([instructions, *(f"{value:.1f}" for value in json.loads(done.stdout)), commit])


def medians(instructions: str) -> list[float]:
    """Milliseconds of a round with kernels and with numpy, and of its products alone."""
    if instructions == "AVX2":
        VARIANTS["x86_64"] = ("x86-64-v3",)
    rounds = [Round(engine="native"), Round(engine="numpy")]
    alone = products_alone(round_products(rounds[0].sample()), time.process_time)
    times: list[list[float]] = [[], [], []]
    for _ in range(ROUNDS):
        for round_, of_engine in zip(rounds, times, strict=False):
            context = round_.sample()
            began = time.process_time()
            round_.go_on(round_.learn(context).tensors)
            of_engine.append(1000 * (time.process_time() - began))
        times[2].append(alone())
    return [statistics.median(each) for each in times]


if __name__ == "__main__":
    main()
