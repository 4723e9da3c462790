"""The table of returns in README.md, between two markers, from docs/results/conformance.json."""

import json

from benchmarks.conformance.protocols import published
from functions.algorithms.registry import BUILT_IN
from scripts.reference import markdown

_BEGIN, _END = "<!-- returns: written by `make docs` -->", "<!-- end of returns -->"
_ROOT = markdown.DATA.parents[1]
_TASK = "simple_spread_3"


def page() -> str:
    """README.md with the generated table."""
    before, rest = (_ROOT / "README.md").read_text(encoding="utf-8").split(_BEGIN)
    return f"{before}{_BEGIN}\n\n{returns()}\n\n{_END}{rest.split(_END)[1]}"


def returns() -> str:
    """The absolute metric of every algorithm that was trained under the full protocol, the best first; raises
    `ValueError` if an algorithm's seeds are incomplete."""
    measured = json.loads((_ROOT / "docs" / "results" / "conformance.json").read_bytes())[_TASK]
    entries = {spec.name: measured[spec.name] for spec in BUILT_IN if spec.name in measured}
    rows = []
    for name, entry in sorted(entries.items(), key=lambda item: -item[1]["mean"]):
        if (entry["protocol"], entry["seeds"]) != ("full", [1, 2, 3, 4, 5]):
            raise ValueError(f"conformance.json: {_TASK}, {name} is not of the full protocol with five seeds")
        low, high = entry["ci95"]
        mean = f"{entry['mean']:.1f} ({low:.1f} to {high:.1f})"
        value, steps = published(_TASK, name) or ("", None)
        rows.append((markdown.code(name), mean, f"{entry['env_steps']:,}", str(value), f"{steps:,}" if steps else ""))
    commits = sorted({commit for entry in entries.values() for commit in entry["commits"]})
    table = markdown.table(("algorithm", "return, 95 % interval", "env steps", "published", "its env steps"), rows)
    return f"{table}\n\nTrained by the commits {', '.join(commits)}."
