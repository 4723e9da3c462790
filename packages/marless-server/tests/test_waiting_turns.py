"""The next run, and the reasons of the others. The expected orders are worked out by hand."""

import math

import pytest
from msgspec.structs import replace

from marless_server.pool.forecasts import begins_in_s
from marless_server.pool.turns import Turn, turns
from marless_server.store.owners import Owner
from marless_server.store.runs import Pace, RunRow, Usage

EMPTY = dict.fromkeys(RunRow.__struct_fields__, "")
NUMBERS = (
    dict.fromkeys(("round", "dollars", "seconds", "served_s"), 0)
    | dict.fromkeys(("score", "key", "rounds"))
    | {"seed": 1}
)


def listed(names, running=(), **settings):
    """The rows of runs such as a1."""
    statuses = dict.fromkeys(names, "queued") | dict.fromkeys(running, "running")
    names_of = [{"number": number, "id": name, "owner": name[0]} for number, name in enumerate(names)]
    return [RunRow(**EMPTY | NUMBERS | row | {"status": statuses[row["id"]]} | settings) for row in names_of]


def order(names, most, usage=(), running=(), **owners):
    """Runs such as a1, in the order of `names`."""
    rows = listed(names, running)
    named = {name: Owner(name=name, **settings) for name, settings in owners.items()}
    return [(turn.run.id, turn.reason) for turn in turns(rows, named, {one.owner: one for one in usage}, most)]


def test_owners_take_turns_by_weight():
    # Runs per weight of a and b before each turn: 0 0, 1/2 0, 1/2 1, 1 1, 3/2 1, 3/2 2.
    names = [name for name, _ in order(["a1", "a2", "a3", "a4", "b1", "b2"], 9, a={"weight": 2.0}, b={})]
    assert names == ["a1", "b1", "a2", "a3", "b2", "a4"]


@pytest.mark.parametrize(("weight", "first"), [(1.0, "b1"), (2.0, "a1")])
def test_of_equal_claims_the_owner_who_used_less_by_weight_today_comes_first(weight, first):
    usage = [Usage(owner="a", slot_seconds=50.0), Usage(owner="b", slot_seconds=30.0)]
    assert order(["a1", "b1"], 9, usage, a={"weight": weight}, b={})[0] == (first, "")


def test_a_run_without_a_place_is_told_who_has_them_and_whose_shares_are_ahead():
    assert order(["a1", "a2", "b1", "b2"], 2, running=["a1"], a={}, b={}) == [
        ("b1", ""),
        ("a2", "places: all 2 are taken (a 1); shares ahead of this run: b 1"),
        ("b2", "places: all 2 are taken (a 1); shares ahead of this run: a 1, b 1"),
    ]


@pytest.mark.parametrize(
    ("quota", "reason"),
    [
        ({"at_once": 1}, "quota: a trains at most 1 at once, so this run waits for an earlier one"),
        ({"slot_seconds": 60.0}, "quota: a's 60 slot-seconds a day is used up; it begins again at 00:00 UTC"),
        ({"dollars": 0.5}, "quota: a's $0.5 a day is used up; it begins again at 00:00 UTC"),
        ({"disk_gb": 1.0}, "quota: a's runs take all of their 1 GB; delete some"),
    ],
)
def test_a_quota_holds_its_owner_alone(quota, reason):
    usage = [Usage(owner="a", slot_seconds=60.0, dollars=0.5, bytes=10**9)]
    assert order(["a1", "a2", "b1"], 9, usage, ["a1"], a=quota, b={}) == [("b1", ""), ("a2", reason)]


@pytest.mark.parametrize(("known", "begins"), [(True, [30.0, 40.0, 50.0]), (False, [30.0, 40.0, math.inf])])
def test_a_run_begins_when_places_are_free(known, begins):
    # Runs that train need 5 rounds of 6 s, and 2 rounds of 20 s. Runs that wait need 10 rounds of 2 s.
    first, second = listed(["a1", "a2"], ["a1", "a2"], rounds=10)
    running = [replace(first, round=5, seconds=30.0), replace(second, round=8, seconds=160.0)]
    waiting = [Turn(row, 1, "") for row in listed(["b1", "b2", "b3"], rounds=10)]
    paces = {"": Pace(settings="", seconds=2.0, dollars=0.0)} if known else {}
    assert begins_in_s(waiting, running, paces, 2) == begins
