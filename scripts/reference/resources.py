"""docs/results/resources.md, with the stored measurement."""

from benchmarks.resources.record import FILE
from scripts.reference import markdown, measured_page

PAGE = markdown.DATA.parent / "results" / "resources.md"
_EXPLAINED = (
    "Actions are the times from a question to its answer, rounds those of whole rounds of training; a ratio is the time"
    " of what it is compared with, over its own, over rounds in which the same is drawn (median, lowest and highest)."
    " Duty is the part of its time for which a trajectory asks. 32 trajectories of 12 steps think and ask for times"
    " from lognormal distributions (of logarithms with a standard deviation of 0.8); a slot that is reserved by the"
    " trajectory is taken at its start and waited for in its first action. The prediction plays what was drawn on a"
    " virtual clock, and leaves out everything else."
)


def page() -> str:
    """Return the page with the measurement that was stored last."""
    return measured_page.page(PAGE, FILE, _EXPLAINED)
