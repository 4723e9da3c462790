"""Prints what the runs of `docs/results/results-spread-ippo-controls.csv` cost in all, with their reads.

    python -m scripts.recounted_totals

As `scripts.recounted_reads`, from the decisions of the runs that have been repeated. An arm whose rounds are all alike
reads the same objects with every seed, so those of its first seed stand for the seeds that have not been repeated.
"""

import csv
import json
import subprocess
from typing import Any

from coordinator.ablation.comparison import ratio
from coordinator.pricing.prices import load_prices
from coordinator.reports.statistics import iqm
from scripts.recounted_reads import DECISIONS, MEASURED, reads_by_round

BASE = "marless-minus"


def main() -> None:
    """Prints a row for each arm: dollars as measured and with reads, and the ratio to the first arm, ten seeds."""
    text = subprocess.run(["git", "show", MEASURED], check=True, capture_output=True, encoding="utf-8").stdout
    decided = json.loads(DECISIONS.read_text(encoding="utf-8"))
    get = float(load_prices().s3_class("standard").get_per_thousand) / 1000
    arms: dict[str, dict[int, tuple[float, float]]] = {}
    for row in csv.DictReader(text.splitlines()):
        arm, seed, dollars = row["arm"], row["seed"], float(row["dollars"])
        own = decided.get(f"{arm} {seed}") or decided[f"{arm} 1"]
        if f"{arm} {seed}" not in decided and len(own["rounds"]) > 1:
            continue
        arms.setdefault(arm, {})[int(seed)] = dollars, dollars + get * reads_of(own)
    for arm, of in arms.items():
        pairs = [(of[seed][1], arms[BASE][seed][1]) for seed in sorted(of)]
        share = ratio([own for own, _ in pairs], [base for _, base in pairs], arm, "dollars")
        before, after = (iqm([pair[number] for pair in of.values()]) for number in (0, 1))
        print(f"| {arm} | {len(of)} seeds | ${before:.4f} | ${after:.4f} | {share.value if share else 0:.3f} |")


def reads_of(decided: dict[str, Any]) -> int:
    """All reads of a run: of its rounds, of the evaluations before some of them, and of the two after the last."""
    rounds = [(rollouts, tuple(team)) for number, rollouts, team in decided["rounds"] for _ in range(number)]
    counted = list(reads_by_round(rounds))
    evaluated = sum(counted[int(round_)][1] for round_ in decided["evaluations"] if int(round_) < len(counted))
    return sum(reads for reads, _, _ in counted) + evaluated + 2 * counted[-1][1]


if __name__ == "__main__":
    main()
