"""docs/results/language.md, with how fast agents that speak learn."""

from benchmarks.language.record import FILE
from scripts.reference import markdown, measured_page

PAGE = markdown.DATA.parent / "results" / "language.md"
_EXPLAINED = (
    "Tokens are those of all prompts and replies, in the rounds behind the first. The plain loop"
    " (`benchmarks/language/plain_loop.py`) calls the same model, sampling, gradient and step in one process, without"
    " functions, messages and storage, and ends with the same adapters to the last bit; a run is compared with the"
    " faster of its settings, seed by seed. Functions at work are the seconds of sampling or learning tasks alone."
    " In the rows about a judge four rollouts of 64 episodes of `text/check` wait for one that takes as long as"
    " learning does, with times from a lognormal distribution (of logarithms with a standard deviation of 0.8) and 32"
    " programs at once; micro-batches have one rollout."
)


def page() -> str:
    """The results with the measurement that was stored last."""
    return measured_page.page(PAGE, FILE, _EXPLAINED)
