"""Detached runs share a tenant's budget, stop when it is used up, and continue when it is raised."""

from emulated_runs import detach, same, summary

BUDGET = ("cloud", "budget", "--backend", "emulated", "--day")
LONG = ("stop.rounds=12", "placement.rule=fused")


def test_runs_stop_within_their_budget_and_go_on_when_it_is_raised(place, marless, finished, expected):
    assert marless(*BUDGET, "0.004").code == 0
    for name in (names := ("one", "two")):
        detach(marless, name, *LONG)
    finished(*names, sweeping=True)
    said = [marless("status", "--follow", name).err[-1] for name in names]
    assert all("the tenant's budget of $0.004 a day is used up" in line for line in said)
    stopped = [summary(place.home, name) for name in names]
    assert sum(run["dollars"]["total"] for run in stopped) <= 0.004 and any(run["rounds"] for run in stopped)
    assert marless(*BUDGET, "none").code == 0
    assert all(marless("resume", "--detach", name).code == 0 for name in names)
    finished(*names)
    for name in names:
        same(summary(place.home, name), expected(marless, *LONG))
