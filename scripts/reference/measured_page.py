"""A measurement in a hand-written page, between two markers, from the record of a benchmark."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.comparisons.measurement_record import Comparison, RecordFile
from scripts.reference import markdown

_BEGIN, _END = "<!-- measurement: written by `make docs` -->", "<!-- end of measurement -->"


def page(path: Path, file: RecordFile[Comparison], explained: str, unlisted: Sequence[str] = ()) -> str:
    """The page with the measurement that was stored last, and how to read it.

    Rows stay in the record only if their name contains a text of `unlisted`.
    """
    before, rest = path.read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{_measurement(file, explained, unlisted)}\n\n{_END}{rest.split(_END)[1]}"


def _measurement(file: RecordFile[Comparison], explained: str, unlisted: Sequence[str]) -> str:
    record = file.stored()
    if record is None:
        return f"Nothing was measured yet: `make bench ARGS={file.name}` measures, and `make docs` puts the table here."
    rows = [comparison.cells() for comparison in record.comparisons]
    table = markdown.table(file.header, [row for row in rows if not any(text in row[0] for text in unlisted)])
    return f"{table}\n\n{explained} {record.sentence()}"
