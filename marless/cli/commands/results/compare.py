"""marless compare: compares trained runs over seeds, with intervals, and says where they cannot be told apart."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from marless.cli import arguments as common
from marless.comparison import comparison_files, score_tables
from marless.comparison.compare_runs import compare_runs
from marless.comparison.comparison import Comparison
from marless.coordinator.errors import FINISHED
from marless.extras import install
from marless.output import note, say, say_json, say_text

EXAMPLES = """examples:
  marless compare base-s1 base-s2 base-s3 fast-s1 fast-s2 fast-s3
  marless compare my_study --by algorithm.name --at dollars
  marless compare my_study --by task.options.bonus --metric win
  marless compare my_rules --by sharing.rule,placement.rule
  marless compare spread-marl-eval.json foraging-marl-eval.json

The arm of the first run is the one that others are compared with. docs/how-to/compare.md explains the results."""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN_OR_STUDY",
        help="runs, studies and other folders of runs, or files of marl-eval (.json)",
    )
    common.compared(parser)
    parser.add_argument(
        "--out", type=Path, default=Path("comparison"), metavar="DIR", help="output folder (default: %(default)s)"
    )
    common.json(parser)


def run(options: Namespace) -> int:
    """Writes the comparison's files and prints its tables."""
    result = compare_runs(options.runs, options.by, options.at, options.metric)
    if not comparison_files.write(options.out, result.comparison, result.arms, result.left_out):
        note(f"no pictures without matplotlib: {install('report')}")
    if options.json:
        _print_json(options.out, result.comparison, result.left_out)
    else:
        _print_text(options.out, result.comparison, result.left_out)
    return FINISHED


def _print_json(folder: Path, comparison: Comparison, left_out: Mapping[str, str]) -> None:
    for name, why in left_out.items():
        say_json({"event": "left_out", "run": name, "reason": why})
    say_json({"event": "compared", "folder": str(folder), "comparison": comparison})


def _print_text(folder: Path, comparison: Comparison, left_out: Mapping[str, str]) -> None:
    for name, why in left_out.items():
        note(f"left out: {name} ({why})")
    say_text(score_tables.headline(comparison))
    for section in score_tables.sections(comparison):
        say_text(f"\n{section.text}")
    say("", *score_tables.notes(comparison), *score_tables.conclusions(comparison))
    say("", f"read {folder / 'compare.md'}; other files are beside it", str(folder))
