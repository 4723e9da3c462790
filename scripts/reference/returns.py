"""The table of docs/results/returns.md, between two markers, from the records of conformance."""

from collections.abc import Mapping
from typing import Any

from benchmarks.conformance import outcomes, report
from benchmarks.conformance.protocols import CONSTANT_STEP, ON_POLICY, published
from marless.functions.algorithms.registry import ALGORITHMS
from scripts.reference import markdown

_BEGIN, _END = "<!-- returns: written by `make docs` -->", "<!-- end of returns -->"
RESULTS = markdown.DATA.parent / "results"
PAGE = RESULTS / "returns.md"
TASK = "simple_spread_3"
_LONG = ", [long run](../../examples/long_run.toml)"
_TERMINAL, _ANNEALED = " ¹", " ²"
_NOTES = (
    "¹ Trained with `algorithm.time_limit=terminal`, all other rows with `bootstrap`; for the {algorithms} algorithms"
    " that were trained with both, `terminal` changes the return by {low:+.1f} to {high:+.1f}. ² Step and entropy fall"
    " linearly to 0, as in the long runs; in the other rows of the PPO family they are constant."
)


def page() -> str:
    """Return the page with the generated table."""
    before, rest = PAGE.read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{returns()}\n\n{_END}{rest.split(_END)[1]}"


def measured_returns() -> dict[str, Any]:
    """Return the figures of every algorithm and treatment on the page's task."""
    return outcomes.layout(report.read(RESULTS))[TASK]


def treatments(name: str, measured: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return each treatment's label in the table and its key in the results: the first settings, then long runs."""
    complete = [key for key, entry in measured.items() if (entry["protocol"], len(entry["seeds"])) == ("full", 5)]
    annealed = _ANNEALED if name in ON_POLICY and name not in CONSTANT_STEP else ""
    first = next(
        ((mark, key) for mark, key in ((annealed, name), (_TERMINAL, f"{name}-terminal")) if key in complete), None
    )
    long = f"{name}-long"
    return [*([first] if first else []), *([(_LONG, long)] if long in complete else [])]


def returns() -> str:
    """The absolute metric of every algorithm that was trained under the full protocol with all five seeds, the best
    first."""
    measured = measured_returns()
    entries = [
        (f"{markdown.code(spec.name)}{settings}", spec.name, measured[key])
        for spec in ALGORITHMS.ours()
        for settings, key in treatments(spec.name, measured)
    ]
    rows = []
    for label, name, entry in sorted(entries, key=lambda item: -item[2]["mean"]):
        low, high = entry["ci95"]
        mean = f"{entry['mean']:.1f} ({low:.1f} to {high:.1f})"
        value, steps = published(TASK, name) or ("", None)
        rows.append((label, mean, f"{entry['env_steps']:,}", str(value), f"{steps:,}" if steps else ""))
    commits = sorted({commit for _, _, entry in entries for commit in entry["commits"]})
    table = markdown.table(("algorithm", "return, 95 % interval", "env steps", "published", "its env steps"), rows)
    return f"{table}\n\n{_notes(measured)} Trained by the commits {', '.join(commits)}."


def _notes(measured: Mapping[str, Any]) -> str:
    both = [name for name in measured if f"{name}-terminal" in measured]
    changes = [measured[f"{name}-terminal"]["mean"] - measured[name]["mean"] for name in both]
    return _NOTES.format(algorithms=len(both), low=min(changes), high=max(changes))
