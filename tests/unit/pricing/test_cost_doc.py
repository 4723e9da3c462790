"""The worked examples of docs/cost.md, against the code that they explain."""

from pathlib import Path

from coordinator.cloud.deploy_messages import standing
from coordinator.placement.coordination_cost import detached, reports
from coordinator.pricing.bill import LOG_BYTES, Meter, bill, total
from coordinator.pricing.idle import Deployment, idle_month
from coordinator.pricing.latency import STANDARD
from coordinator.pricing.prices import load_prices
from functions.contract import Usage

TEXT = Path(__file__).parents[3].joinpath("docs/cost.md").read_text(encoding="utf-8")
PRICES = load_prices()


def body_of(section):
    return TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]


def words(section):
    """A section in one line."""
    return " ".join(body_of(section).split())


def rows(section):
    """The table of a section, cell by cell."""
    lines = [line.strip("|").split("|") for line in body_of(section).splitlines() if line.startswith("| ")]
    return [[cell.strip(" *") for cell in cells] for cells in lines[1:]]


def table(lines, digits):
    """The same of a bill."""
    amounts = [
        [line.name, f"{float(line.quantity):,.6g} {line.unit}", f"${float(line.dollars):.{digits}f}"]
        for line in lines
        if line.dollars
    ]
    return [*amounts, ["total", "", f"${float(total(lines)):.{digits}f}"]]


def test_the_example_is_what_the_bill_says():
    meter = Meter()
    for function, number, ms, usage in (
        ("actor", 16, 1850, Usage(puts=1, gets=2)),
        ("learner", 3, 2400, Usage(puts=2, gets=18)),
    ):
        for _ in range(number):
            meter = meter.add_invocation(function, 1769, ms, 0, usage).add_log(LOG_BYTES)
        # The wave's turn: a commit; charter, lease, state, topmost set.
        meter = meter.add_invocation("coordinator", 1769, 105, 0, Usage()).add_log(LOG_BYTES).add_commit(6000)
        for size in (4000, 0, 6000, 0):
            meter = meter.add_load(size)
        meter += reports(number)
    assert rows("An example") == table(bill(meter.add_commit(2000), PRICES).lines, 8)


def test_a_deployment_at_rest_is_what_the_month_says():
    deployment = Deployment(coordinator_mb=1769, alarm_metrics=10, dashboards=1, image=300 * 2**20)
    assert rows("A deployment at rest") == table(idle_month(PRICES, deployment), 4)
    # And what `marless deploy` prints, with the template as it is.
    assert standing({}) == deployment


def test_what_detached_mode_adds_is_what_the_planner_reckons_with():
    there = detached(STANDARD, 6000, 1769)
    told = words("What detached mode adds")
    assert f"${bill(there.turn, PRICES).total:.7f} at 1,769 MB and a state of 6 KB" in told
    assert f"two units, ${bill(there.line, PRICES).total:f}" in told
    full = reports(64)
    writes, gets = (bill(meter, PRICES).total / 64 for meter in (Meter(write_units=full.write_units), Meter(gets=64)))
    assert f"{full.write_units} units for 64 tasks" in told
    assert f"${writes:.7f} and ${gets:.7f}" in told


def test_the_seconds_of_a_wave_are_those_of_the_model():
    told = words("What detached mode adds")
    assert f"about {STANDARD.detached_wave_s:.2f} s beside its tasks when detached" in told
    assert f"{STANDARD.attended_wave_s:.2f} s when driven from outside" in told
    waiting = f"{STANDARD.get} ms for an object read and {STANDARD.put} ms for one written"
    assert waiting in words("The lines")
