"""docs/results/tenants.md, with what tenants gain by one pool and one model."""

from benchmarks.tenants.record import FILE
from scripts.reference import markdown, measured_page

PAGE = markdown.DATA.parent / "results" / "tenants.md"
_EXPLAINED = (
    "Whoever trains alone has the whole pool: two slots where runs compute, sixteen where they wait for a judge. No "
    "schedule ends before the processor seconds of all processes, divided by the cores, nor before the busy seconds "
    "of the slots, divided by their number: that is the bound of the makespan. Tokens are those that roles write; "
    "those of one run alone are its tokens over its seconds from its first task to its last, without the start of "
    "workers, which the seconds of all together contain. The memory of workers is the sum of their PSS, what they "
    "share counted once, at its peak."
)


def page() -> str:
    """The results with the measurement that was stored last."""
    return measured_page.page(PAGE, FILE, _EXPLAINED)
