"""The largest differences between the engines native and numpy after a round of every algorithm, as CSV.

python tests/support/native/engine_differences.py >docs/results/native.csv
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "plain_algorithms"))
from engine_rounds import COMPARABLE, SETTINGS, trained

KINDS = {"perceptron": {}, "layer norm": {"layer_norm": True}, "gru": {"recurrent": True}}


def largest_difference(name, settings):
    plain, other = (
        trained(name, np.float32, engine=engine, **COMPARABLE.get(name, {}), **settings).tensors
        for engine in ("numpy", "native")
    )
    return max(np.abs(other[key].astype(np.float64) - array).max(initial=0) for key, array in plain.items())


def main():
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    print("algorithm,network,largest difference,commit")
    for name in SETTINGS:
        for kind, settings in KINDS.items():
            print(f"{name},{kind},{largest_difference(name, settings):.1e},{commit.strip()}")


if __name__ == "__main__":
    main()
