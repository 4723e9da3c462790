"""``python -m benchmarks [--quick] [--out FILE]``: measures everything and prints one markdown table."""

import argparse
import os
import platform
import sys
import time
from pathlib import Path

from benchmarks.sections import FULL, QUICK, sections
from benchmarks.table import Row, markdown


def main() -> None:
    """Measures one thing at a time; progress goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about two minutes instead of ten, with more noise")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    began = time.monotonic()
    rows: list[Row] = []
    for title, measure in sections():
        print(f"{time.monotonic() - began:5.0f} s  {title}", file=sys.stderr, flush=True)
        rows += measure(QUICK if args.quick else FULL)
    text = f"{markdown(rows)}\n\n{machine()}; measured in {time.monotonic() - began:.0f} s.\n"
    print(text, end="")
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(text, encoding="utf-8")


def machine() -> str:
    """The measured configuration and machine."""
    return (
        "Simple spread, three agents, MAPPO with separate networks. Medians with lowest and highest of (n) repetitions,"
        " ratios within each repetition. "
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    main()
