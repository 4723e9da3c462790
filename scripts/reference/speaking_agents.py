"""docs/results/language.md, with how fast agents that speak learn."""

from benchmarks.language.record import FILE
from scripts.reference import markdown, measured_page

PAGE = markdown.DATA.parent / "results" / "language.md"
_EXPLAINED = (
    "Tokens are all tokens of prompts and replies, after the first round. The plain loop"
    " (`benchmarks/language/plain_loop.py`) is the baseline: it calls the same model in one process, without functions,"
    " messages and storage, and ends with the same bytes. Each seed is compared with the faster of its settings. In"
    " the rows with a judge, four rollouts of 64 episodes of `text/check` wait for a judge that takes as long as"
    " learning, with lognormal times. Micro-batches have one rollout. [The record](language.json) also has processor"
    " seconds, the rates of functions and more rows of memory."
)
_UNLISTED = ("functions at work", "processor seconds", "1 worker")


def page() -> str:
    """The results with the measurement that was stored last."""
    return measured_page.page(PAGE, FILE, _EXPLAINED, _UNLISTED)
