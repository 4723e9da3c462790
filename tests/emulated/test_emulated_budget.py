"""Detached runs share a tenant's budget, stop when it is used up, and continue when it is raised."""

from emulated_runs import detach, same, summary

BUDGET = ("cloud", "budget", "--backend", "emulated", "--day")


def test_runs_stop_within_budget_and_continue_when_raised(place, marless, finished, expected, request):
    request.addfinalizer(lambda: marless(*BUDGET, "none"))
    assert marless(*BUDGET, "0.004").code == 0
    for name in (names := ("one", "two")):
        detach(marless, name, "stop.rounds=1000", "placement.rule=fused")
    finished(*names, sweeping=True)
    said = "the tenant's budget of $0.004 a day is used up"
    assert all(said in marless("status", "--follow", name).err[-1] for name in names)
    stopped = {name: summary(place.home, name) for name in names}
    assert sum(run["dollars"]["total"] for run in stopped.values()) <= 0.004
    assert any(run["rounds"] for run in stopped.values())
    assert marless(*BUDGET, "none").code == 0
    for name, run in stopped.items():
        more = f"stop.rounds={run['rounds'] + 2}"
        assert marless("resume", "--detach", name, more).code == 0
        same(*finished(name), expected(marless, more, "placement.rule=fused"))
