"""A measurement in a page that somebody writes, between two markers, from the record of a benchmark."""

from pathlib import Path

from benchmarks.comparisons.measurement_record import Comparison, RecordFile
from scripts.reference import markdown

_BEGIN, _END = "<!-- measurement: written by `make docs` -->", "<!-- end of measurement -->"


def page(path: Path, file: RecordFile[Comparison], explained: str) -> str:
    """The page with the measurement that was stored last, and how to read it."""
    before, rest = path.read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{_measurement(file, explained)}\n\n{_END}{rest.split(_END)[1]}"


def _measurement(file: RecordFile[Comparison], explained: str) -> str:
    record = file.stored()
    if record is None:
        return f"Nothing was measured yet: `make bench ARGS={file.name}` measures, and `make docs` puts the table here."
    table = markdown.table(file.header, [comparison.cells() for comparison in record.comparisons])
    return f"{table}\n\n{explained} {record.sentence()}"
