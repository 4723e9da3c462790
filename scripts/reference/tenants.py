"""docs/results/tenants.md, with the gain of tenants by one pool and one model."""

from benchmarks.tenants.record import FILE
from scripts.reference import markdown, measured_page

PAGE = markdown.DATA.parent / "results" / "tenants.md"
_EXPLAINED = (
    "A run that trains alone has the whole pool: two slots if runs compute, sixteen if they wait for a judge. The"
    " bound of the time is the larger of two numbers: processor seconds divided by cores, and busy slot seconds"
    " divided by slots. Tokens are the tokens that roles write. For one run alone, they are divided by the seconds"
    " from its first task to its last, without the start of workers, which the time of all runs together includes."
    " The memory of workers is the peak of the sum of their PSS, so shared memory counts once."
)


def page() -> str:
    """The results with the measurement that was stored last."""
    return measured_page.page(PAGE, FILE, _EXPLAINED)
