"""A study in the cloud: shares by weight, lending, and dollars that are never handed out twice."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marless.coordinator.governor.concurrency_shares import divide
from marless.coordinator.governor.study_state import RunOutcome, StudyPlan, advance, initial_state


def plan_of(owners, width, weights=None, dollars=None, caps=None, at_work=64):
    return StudyPlan(
        study="s",
        tenant="default",
        file=msgspec.Raw(b"{}"),
        coordinator="c:1",
        width=width,
        at_work=at_work,
        owners=owners,
        weights=weights or {},
        dollars=dollars,
        caps=caps or {},
    )


def finished(dollars=0.0):
    return RunOutcome(status="finished", dollars=dollars)


def test_owners_share_by_weight_and_their_runs_equally():
    assert divide({"a1": "a", "a2": "a", "b1": "b"}, {"a": 1.0, "b": 2.0}, 12) == {"a1": 2, "a2": 2, "b1": 8}


def test_every_active_run_has_function_for_any_weight():
    assert divide({"a": "a", "b": "b"}, {"a": 1e6, "b": 1.0}, 2) == {"a": 1, "b": 1}


def test_nobody_at_work_shares_nothing():
    assert divide({}, {}, 5) == {}


OWNERS = st.lists(st.sampled_from("abc"), min_size=1, max_size=12)
WEIGHTS = st.fixed_dictionaries({owner: st.floats(0.01, 100.0) for owner in "abc"})


@given(OWNERS, WEIGHTS, st.integers(0, 40))
def test_shares_fill_width_and_grow_with_weight(owners, weights, more):
    by_run = {f"r{index}": owner for index, owner in enumerate(owners)}
    shares = divide(by_run, weights, len(by_run) + more)
    assert sum(shares.values()) == len(by_run) + more and min(shares.values()) >= 1
    runs = Counter(owners)
    each = {run: weights[owner] / runs[owner] for run, owner in by_run.items()}
    for one in by_run:
        for other in by_run:
            assert each[one] <= each[other] or shares[one] >= shares[other]


def test_share_of_ended_run_is_lent():
    plan = plan_of({"a": "a", "b": "b"}, 8)
    state = advance(plan, initial_state(plan), {})
    assert [state.live[run].width for run in "ab"] == [4, 4]
    after = advance(plan, state, {"a": finished()})
    assert {run: grant.width for run, grant in after.live.items()} == {"b": 8}
    assert advance(plan, after, {"b": finished()}).is_over(plan)


def test_runs_of_all_owners_begin_in_any_order():
    plan = plan_of({"a1": "a", "a2": "a", "a3": "a", "b1": "b"}, 2)
    assert list(advance(plan, initial_state(plan), {}).live) == ["a1", "b1"]


def test_active_runs_stay_within_limit_of_file():
    plan = plan_of(dict.fromkeys(["r1", "r2", "r3"], "a"), 10, at_work=2)
    live = advance(plan, initial_state(plan), {}).live
    assert {run: grant.width for run, grant in live.items()} == {"r1": 5, "r2": 5}


def test_what_a_run_leaves_goes_to_the_others():
    plan = plan_of(dict.fromkeys(["r1", "r2", "r3"], "a"), 2, dollars=3.0)
    state = advance(plan, initial_state(plan), {})
    assert [grant.dollars for grant in state.live.values()] == pytest.approx([1.0, 1.0])
    state = advance(plan, state, {"r1": finished(0.4)})
    assert {run: grant.dollars for run, grant in state.live.items()} == pytest.approx({"r2": 1.3, "r3": 1.3})


def test_an_owner_has_no_more_than_its_cap():
    plan = plan_of({"a1": "a", "a2": "a", "b1": "b"}, 3, dollars=9.0, caps={"a": 1.0})
    grants = advance(plan, initial_state(plan), {}).live
    assert {run: grant.dollars for run, grant in grants.items()} == pytest.approx({"a1": 0.5, "a2": 0.5, "b1": 3.0})


@given(OWNERS, st.integers(1, 5), st.floats(0.01, 100.0), st.floats(0.01, 100.0), st.data())
def test_bills_and_grants_stay_within_caps(owners, width, cap, own_cap, data):
    plan = plan_of({f"r{index}": owner for index, owner in enumerate(owners)}, width, dollars=cap, caps={"a": own_cap})
    state = advance(plan, initial_state(plan), {})
    for _ in range(100):
        if state.is_over(plan):
            break
        runs = data.draw(st.lists(st.sampled_from(sorted(state.live)), unique=True))
        spent = {run: data.draw(st.floats(0.0, 1.0)) * state.live[run].dollars for run in runs}
        before, state = state, advance(plan, state, {run: finished(dollars) for run, dollars in spent.items()})
        at_most = {run: grant.dollars for run, grant in state.live.items()}
        at_most |= {run: outcome.dollars for run, outcome in state.over.items()}
        assert sum(at_most.values()) <= cap * (1 + 1e-9)
        assert sum(dollars for run, dollars in at_most.items() if plan.owners[run] == "a") <= own_cap * (1 + 1e-9)
        for run, grant in state.live.items():
            assert grant.width >= 1
            assert run not in before.live or grant.dollars >= before.live[run].dollars * (1 - 1e-9)
        assert sum(grant.width for grant in state.live.values()) in (0, width)


def test_study_state_round_trips():
    plan = plan_of({"a": "a", "b": "b"}, 1, dollars=1.0)
    state = advance(plan, initial_state(plan), {})
    assert msgspec.json.decode(msgspec.json.encode(state), type=type(state)) == state
