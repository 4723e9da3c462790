"""The page docs/results/gpu.md, from the record of the benchmark."""

from benchmarks.gpu import record
from scripts.reference import markdown

PAGE = markdown.DATA.parent / "results" / "gpu.md"
_NONE = "Nothing was measured yet: `make bench ARGS=gpu` measures where there is a GPU, `make docs` writes this page."
_ABOUT = (
    "Time of the learner of one agent of simple spread: MAPPO, a policy and a critic of two hidden layers each, one"
    " epoch of eight minibatches. That is values, advantages and targets, then PPO's losses and Adam, as a function of"
    " the system computes them, with copies to the GPU and back. All ways learn from the same data in turn:"
    " `make bench ARGS=gpu`."
)
_COLUMNS = (
    "Milliseconds are medians; the other columns say how many times as fast as numpy on one core each way is, medians"
    " of the ratios within each repetition, and for the GPU the lowest and the highest. The last column is the largest"
    " difference between a weight that the GPU and one that numpy has learned."
)
_WHY = (
    "The losses are computed by numpy on the processor under every engine"
    " ([decision 17](../decisions/0017-two-engines.md)), so a GPU waits for a core in every step: outputs come back,"
    " and the gradient at them goes there. A function has one core, which is why `algorithm.engine=torch` computes"
    " with one thread; the column of all cores is torch with as many threads, whose bytes depend on their number."
)


def page() -> str:
    """The table, what it says, and where it was measured."""
    stored = record.stored()
    if stored is None:
        return f"# On a GPU\n\n{_NONE}\n"
    rows = [cell.cells() for cell in stored.cells]
    findings = "\n".join(f"* {sentence}" for sentence in record.findings(stored.cells))
    table = markdown.table(record.header(stored.cores), rows)
    return f"# On a GPU\n\n{_ABOUT}\n\n{findings}\n\n{table}\n\n{_COLUMNS}\n\n{_WHY}\n\n{stored.conditions()}\n"
