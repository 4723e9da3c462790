"""The dollars of a month, by run, owner and kind."""

from datetime import UTC, datetime
from types import SimpleNamespace as Fields

import msgspec
import pytest
from ablated_runs import a_line
from simulated import MemoryLedger, make_plan

from marless.coordinator.core.state import State
from marless.coordinator.drive.ledger_items import STATE, line_body
from marless.coordinator.drive.run_manifest import STUDY
from marless.coordinator.governor.study_state import StudyPlan
from marless.coordinator.pricing.bill import Meter
from marless.functions.encoding import to_json
from marless.functions.messages.message import Record
from marless_cloud.cloud_runs import CloudRun
from marless_cloud.monthly_bill import by_kind, by_owner, costs, month_of

# 4,000 PUTs at $0.005 for 1,000, and 16 million write units at $0.625 for a million (us-east-1). All is storage.
METER, DOLLARS = Meter(puts=4000, write_units=16_000_000), 0.02 + 10.0


class Items(MemoryLedger):
    """A ledger of a run, and the times of its writes."""

    def write(self, name, body, day):
        self[name] = Record(version=1, body=body, at=datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())

    def names(self):
        return sorted(self)

    def items(self, prefix, after=""):
        return [(name, self[name].body) for name in sorted(self) if name.startswith(prefix) and name > after]


def a_run(name, lines, last, created="2026-10-30T00:00:00+00:00", study="", owner=""):
    ledger, identity = Items(), Fields(created=created, deployment_ref=Fields(owner=owner))
    ledger.write(STATE, b"", last)
    for number, (day, dollars) in enumerate(lines, 1):
        ledger.write(f"line/{number:06d}", line_body(a_line(number, dollars=dollars)), day)
    return CloudRun(name, ledger, Fields(plan=make_plan(), state=State(meter=METER), identity=identity), study)


DETACHED = [("2026-10-30", 1.0), ("2026-10-31T23:59:59", 2.5), ("2026-11-01", 9.0)]
RUNS = {
    "detached": a_run("detached", DETACHED, "2026-11-02", owner="anna"),
    "driven": a_run("driven", [], "2026-11-03", owner="anna"),
    "earlier": a_run("earlier", DETACHED[:2], "2026-10-31", study=f"{STUDY}s"),
    "begun": a_run("begun", [("2026-11-05", 4.0)], "2026-12-01", "2026-11-01T00:00:00+00:00", f"{STUDY}s", "carl"),
    "damaged": CloudRun("damaged", Items(), problem="it has no plan"),
}
# An owner "me" is the default of a study's file.
TERMS = {"width": 1, "at_work": 1, "weights": {}, "dollars": None, "caps": {}}
OWNERS = {"earlier": "berta", "begun": "me"}
PLAN = StudyPlan(study="s", tenant="t", file=msgspec.Raw(b"{}"), coordinator="", owners=OWNERS, **TERMS)
STUDIES = Fields(ledger=MemoryLedger(plan=Record(version=1, body=to_json(PLAN))))
TENANT = Fields(names=lambda: [*RUNS], read=RUNS.get, deployed=Fields(outside=lambda study: STUDIES))


@pytest.mark.parametrize(
    ("month", "dollars", "owners"),
    [
        ("2026-10", {"detached": 2.5, "earlier": DOLLARS}, {"berta": DOLLARS, "anna": 2.5}),
        ("2026-11", {"detached": DOLLARS - 2.5, "driven": DOLLARS, "begun": 4.0}, {"anna": 17.54, "carl": 4.0}),
        ("2026-12", {"begun": DOLLARS - 4.0}, {"carl": DOLLARS - 4.0}),
        ("2027-01", {}, {}),
    ],
)
def test_each_dollar_is_in_one_month(month, dollars, owners):
    run_costs, problems = costs(TENANT, month_of(month))
    assert {cost.run: float(cost.dollars) for cost in run_costs} == pytest.approx(dollars)
    assert {owner: float(amount) for owner, amount in by_owner(run_costs).items()} == pytest.approx(owners)
    assert by_kind(run_costs).keys() <= {"storage"} and problems == {"damaged": "it has no plan"}
