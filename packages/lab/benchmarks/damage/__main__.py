"""`python -m benchmarks.damage`. See the package."""

import sys
from argparse import ArgumentParser

from benchmarks.damage import configurations, files, policies
from benchmarks.damage.forked import preload
from benchmarks.damage.table import Table


def main() -> int:
    """1 when something ended wrongly."""
    parser = ArgumentParser(prog="python -m benchmarks.damage")
    parser.add_argument("what", choices=("files", "policies", "configurations"))
    parser.add_argument("--number", type=int, default=300, help="inputs that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    preload([*files.COMMANDS, "resume", "train", "config", "estimate", "study"])
    table = Table()
    if options.what == "configurations":
        inputs = configurations.check(table)
    else:
        inputs = {"files": files, "policies": policies}[options.what].check(options.number, options.seed, table)
    return int(table.show(inputs) > 0)


if __name__ == "__main__":
    sys.exit(main())
