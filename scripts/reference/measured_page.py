"""A measurement in a page that somebody writes, between two markers, from the record of a benchmark."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparisons.measurement_record import Comparison, RecordFile
from scripts.reference import markdown

_BEGIN, _END = "<!-- measurement: written by `make docs` -->", "<!-- end of measurement -->"


def page(path: Path, measurement: Sequence[str]) -> str:
    """The page with the lines of the measurement."""
    before, rest = path.read_text(encoding="utf-8").split(_BEGIN)
    return "\n".join([f"{before}{_BEGIN}\n", *measurement, f"\n{_END}{rest.split(_END)[1]}"])


def lines(file: RecordFile[Comparison], explained: str, unlisted: Sequence[str] = ()) -> list[str]:
    """Return the measurement that was stored last as a table, and how to read it.

    Rows stay in the record only if their name contains a text of `unlisted`.
    """
    record = file.stored()
    if record is None:
        return [f"Nothing was measured yet: `make bench ARGS={file.name}` measures. `make docs` puts the table here."]
    rows = [comparison.cells() for comparison in record.comparisons]
    table = markdown.table(file.header, [row for row in rows if not any(text in row[0] for text in unlisted)])
    return [*table.splitlines(), "", f"{explained} {record.sentence()}"]
