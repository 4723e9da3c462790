"""The measurement in docs/results/gpu.md, between two markers, from the record of the benchmark."""

from benchmarks.gpu import record
from scripts.reference import markdown

PAGE = markdown.DATA.parent / "results" / "gpu.md"
_BEGIN, _END = "<!-- measurement: written by `make docs` -->", "<!-- end of measurement -->"
_NONE = "No record is stored yet: `make bench ARGS=gpu` measures where there is a GPU, `make docs` puts the table here."


def page() -> str:
    """The page with the measurement that was stored last."""
    before, rest = PAGE.read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{measurement()}\n\n{_END}{rest.split(_END)[1]}"


def measurement() -> str:
    """Return the table, its findings, and the machine of its measurement."""
    stored = record.stored()
    if stored is None:
        return _NONE
    rows = [cell.cells() for cell in stored.cells]
    findings = "\n".join(f"* {sentence}" for sentence in record.findings(stored.cells))
    return f"{findings}\n\n{markdown.table(record.header(stored.cores), rows)}\n\n{stored.conditions()}"
