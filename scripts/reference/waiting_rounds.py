"""docs/how-to/when-a-round-waits.md, with its measurements."""

from benchmarks.pipeline.record import FILE
from scripts.reference import markdown, measured_page

PAGE = markdown.DATA.parent / "how-to" / "when-a-round-waits.md"
_EXPLAINED = (
    "A ratio is the time of the rounds that it is compared with, over its own. The prediction leaves out everything but"
    " the durations of tasks. In the rows that wait, each of a round's 32 rollouts waits for a time from a lognormal"
    " distribution (of logarithms with a standard deviation of 0.8), on eight slots, and learners have slots of their"
    " own."
)


def page() -> str:
    """The guide with the measurement that was stored last."""
    return measured_page.page(PAGE, FILE, _EXPLAINED)
