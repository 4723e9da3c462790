"""``python -m benchmarks adapters``: the table."""

import sys

from benchmarks.adapters.entries import ENTRIES, Entry
from benchmarks.launch import measured
from benchmarks.table import Row, markdown, quotients


def table(repetitions: int, seconds: float) -> str:
    """Return a markdown table of all entries, and the names of entries without their packages."""
    rows: list[Row] = []
    missing: list[str] = []
    for name, entry in ENTRIES.items():
        print(f"       {name}", file=sys.stderr, flush=True)
        found = measured("adapters", name, "--repetitions", repetitions, "--seconds", seconds)
        if "missing" in found:
            missing.append(f"{name} (pip install {' '.join(entry.packages)})")
        else:
            rows += _rows(entry, found)
    text = f"{markdown(rows)}\n\nSteps per second of processor time."
    return f"{text}\n\nNot installed: {', '.join(missing)}." if missing else text


def _rows(entry: Entry, found: dict[str, list[float]]) -> list[Row]:
    raw, adapter = found["raw"], found["adapter"]
    at_once = f", {entry.num_envs} at once" if entry.num_envs > 1 else ""
    label = f"{entry.task.name}{at_once}"
    rows = [
        Row(f"{entry.task.name}: {entry.of}, env steps/s", raw),
        Row(f"{label}, env steps/s", adapter, ratios=quotients(adapter, raw), against=entry.of, least=entry.least),
    ]
    if with_state := found.get("raw with state"):
        ratios = quotients(adapter, with_state)
        rows.append(Row("- the same", adapter, ratios=ratios, against=f"{entry.of} and its state()"))
    return rows
