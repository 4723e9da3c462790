"""``python -m benchmarks.conformance PROTOCOL``: trains cases without a record, and writes tables and curves.

python -m benchmarks.conformance quick --anew          every algorithm, three seeds: passes -45 or exits with 1
python -m benchmarks.conformance full                  the whole protocol: hours; Ctrl-C stops, the same command resumes
python -m benchmarks.conformance full --only simple_spread_3-vdn
python -m benchmarks.conformance starcraft             SMAC and SMACv2, for those who own StarCraft II: days
python -m benchmarks.conformance report                tables and curves of what there is
"""

import argparse
import os
import shutil
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

from benchmarks.conformance import record, report
from benchmarks.conformance.campaign import Folders, ProtocolCampaign
from benchmarks.conformance.cases import REFERENCE, Case, Protocol, missing
from benchmarks.conformance.outcomes import missed
from benchmarks.conformance.protocols import PROTOCOLS
from benchmarks.conformance.record import Record
from benchmarks.launch import ROOT, environment
from benchmarks.records import json_lines
from marless.infra.local.available_cores import cores
from marless.signals import Interrupted, Signals

_RESULTS = ROOT / "docs" / "results"


def main() -> int:
    """Returns 0 if every case that ran passed its bar, 1 if not, 130 if it was stopped."""
    options = _arguments().parse_args()
    # Two runs share two cores: one thread each.
    os.environ.update(environment())
    results = options.out
    if options.what == "report":
        report.write(results)
        return 0
    protocol = PROTOCOLS[options.what]
    folders = Folders(results, options.work / protocol.name)
    if options.anew:
        record.path(results, protocol.name).unlink(missing_ok=True)
        shutil.rmtree(folders.work, ignore_errors=True)
    if options.again:
        _forget_failures(protocol, results)
    try:
        with Signals() as signals:
            code = _train(protocol, options, folders, signals)
    except Interrupted as interrupted:
        return interrupted.code
    found = [outcome for outcome in report.write(results) if outcome.protocol == protocol.name]
    short = missed(found)
    for outcome in short:
        print(f"{outcome.case.arm.name}: missed its bar, or a seed failed; see {results / 'conformance.md'}")
    return code or bool(short)


def _train(protocol: Protocol, options: argparse.Namespace, folders: Folders, signals: Signals) -> int:
    began = time.monotonic()
    among = Among(protocol, options.only or ["*"])
    for case in filter(among, protocol.cases):
        if why := missing(case):
            print(f"{case.arm.name}: left out; {why}", flush=True)

    def print_record(made: Record) -> None:
        name = f"{made.task}-{made.algorithm}-{made.treatment}, seed {made.seed}"
        result = (
            made.reason if made.absolute is None else f"return {made.absolute.mean:.2f} after {made.seconds:,.0f} s"
        )
        left = len(campaign.missing)
        print(f"{time.monotonic() - began:7,.0f} s  {name}: {made.status}, {result}; {left} to go", flush=True)

    campaign = ProtocolCampaign(protocol, among, folders, print_record)
    print(f"{len(campaign.cells)} cells, {len(campaign.missing)} of them to train", flush=True)
    campaign.run(options.jobs, signals)
    if signals.received:
        print(f"stopped with {len(campaign.missing)} cells to go; the same command resumes", file=sys.stderr)
        return signals.code
    return 0


class Among:
    """The cases with names that match one of the patterns, and the references that they play against."""

    def __init__(self, protocol: Protocol, patterns: list[str]) -> None:
        self._patterns = patterns
        self._tasks = {case.task for case in protocol.cases if self._fits(case)}

    def __call__(self, case: Case) -> bool:
        return self._fits(case) or (case.treatment == REFERENCE and case.task in self._tasks)

    def _fits(self, case: Case) -> bool:
        return any(fnmatch(case.arm.name, f"{pattern}*") for pattern in self._patterns)


def _forget_failures(protocol: Protocol, results: Path) -> None:
    file = record.path(results, protocol.name)
    kept = [made for made in record.read(file).values() if made.status != "failed"]
    json_lines.write(file, kept)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=[*PROTOCOLS, "report"])
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="cases whose names begin so; * fits all")
    parser.add_argument("--jobs", type=int, default=cores(), metavar="N", help="runs at once (default: %(default)s)")
    parser.add_argument("--anew", action="store_true", help="delete earlier records of the protocol")
    parser.add_argument("--again", action="store_true", help="retry failed cells")
    parser.add_argument("--out", type=Path, default=_RESULTS, metavar="DIR", help="folder of the results")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "conformance", metavar="DIR", help="of the runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
