"""docs/results/entities.md, with the tables of the stored record between two markers."""

from benchmarks.entities.registered import load
from benchmarks.entities.runs import Run
from benchmarks.entities.table import text
from benchmarks.launch import ROOT
from benchmarks.records import json_lines

PAGE = ROOT / "docs" / "results" / "entities.md"
RECORD = PAGE.with_suffix(".jsonl")
_BEGIN, _END = "<!-- tables: written by `make docs` -->", "<!-- end of tables -->"


def page() -> str:
    """Return the page with the tables of the record."""
    before, rest = PAGE.read_text(encoding="utf-8").split(_BEGIN)
    runs = json_lines.read(RECORD, Run)
    tables = text(load(), runs) if runs else "The arms are registered and have not run yet."
    return f"{before}{_BEGIN}\n\n{tables}\n\n{_END}{rest.split(_END)[1]}"
