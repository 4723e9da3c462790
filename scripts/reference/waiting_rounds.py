"""The measurement in docs/how-to/when-a-round-waits.md, between two markers, from the record of the benchmark."""

from benchmarks.pipeline import record
from scripts.reference import markdown

PAGE = markdown.DATA.parent / "how-to" / "when-a-round-waits.md"
_BEGIN, _END = "<!-- measurement: written by `make docs` -->", "<!-- end of measurement -->"
_NONE = "Nothing was measured yet: `make bench ARGS=pipeline` measures, and `make docs` puts the table here."
_EXPLAINED = (
    "A ratio is the time of the rounds that it is compared with, over its own. The prediction leaves out everything but"
    " the durations of tasks. In the rows that wait, each of a round's 32 rollouts waits for a time from a lognormal"
    " distribution (of logarithms with a standard deviation of 0.8), on eight slots, and learners have slots of their"
    " own."
)


def page() -> str:
    """The guide with the measurement that was stored last."""
    before, rest = PAGE.read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{measurement()}\n\n{_END}{rest.split(_END)[1]}"


def measurement() -> str:
    """The table, how to read it, and where it was measured."""
    stored = record.stored()
    if stored is None:
        return _NONE
    rows = [comparison.cells() for comparison in stored.comparisons]
    return f"{markdown.table(record.HEADER, rows)}\n\n{_EXPLAINED} {stored.sentence()}"
