"""The prices of the default run on pages are those of the stored record."""

from pathlib import Path

import pytest

from benchmarks.comparisons.run_prices import WAYS, read
from marless.coordinator.pricing.prices import load_prices
from marless.estimation.rented_machine import INSTANCE, rented_machine
from marless.reports.statistics import mean

DOCS = Path(__file__).parents[3] / "docs"
ROWS = read(DOCS / "results/run-prices.csv")
MEANS = {way: mean([float(row[way]) for row in ROWS]) for way in WAYS}


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def test_sentences_have_the_prices_of_the_record():
    functions, auto, _, busy = (f"${MEANS[way]:.2g}" for way in WAYS)
    text = " ".join(page("explanation/cost.md").split())
    expected = f"{functions} as functions with a learner per slot, {auto} with `placement.rule=auto`, and {busy} on"
    assert f"costs {expected} a busy machine" in text
    machine = rented_machine(load_prices("us-east-1"), workers=2)
    text = " ".join(page("results/dollars.md").split())
    assert f"a {INSTANCE} with two virtual processors for ${machine.hourly:g} per hour" in text


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["seed"])
def test_a_row_s_rented_machine_is_billed_by_its_seconds(row):
    # $0.0765 an hour, 40 s to boot, at least a minute.
    seconds = float(row["seconds"])
    assert float(row["busy"]) == pytest.approx(0.0765 / 3600 * seconds, rel=0.01)
    assert float(row["rented"]) == pytest.approx(0.0765 / 3600 * max(60, 40 + seconds), rel=0.01)
