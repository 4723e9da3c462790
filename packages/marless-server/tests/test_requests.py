"""Answers of the API to an owner, without a pool."""

import cProfile
import pstats

import pytest
from requests_to_labs import SMALL

from marless.coordinator.config import toml_dump
from marless.coordinator.config.loading import convert
from marless.coordinator.config.schema import ConfigError
from marless_server.store.owners import Owner
from marless_server.store.runs import Figures, Usage


def test_a_submission_is_the_same_run_under_the_same_key(lab):
    key = [("idempotency-key", "sweep-1")]
    sent = [("ana", SMALL), ("ana", SMALL), ("ana", SMALL | {"seed": 2}), ("ben", SMALL)]
    answers = [lab.call(name, "POST", "/submissions", body, key) for name, body in sent]
    assert [answer.status for answer in answers] == [201, 200, 409, 201]
    assert answers[0].json["id"] == answers[1].json["id"] != answers[3].json["id"]
    text = [("content-type", "application/toml; charset=utf-8")]
    toml = lab.call("ana", "POST", "/submissions", toml_dump.document(convert(SMALL, "")).encode(), text)
    configs = [lab.call("ana", "GET", f"/runs/{run.json['id']}").json["config"] for run in (answers[0], toml)]
    assert configs[0] == configs[1]


def test_the_price_follows_from_an_earlier_run_of_the_owner_with_these_settings(lab):
    run, longer = lab.submit("ana"), SMALL | {"seed": 7, "stop": {"rounds": 10}}
    figures = Figures(round=4, score=1.5, dollars=0.02, seconds=8.0, served_s=3.0)
    lab.runs.record(run, figures, Usage(owner="ana"))
    prices = [lab.call(name, "POST", "/submissions/check", longer).json["price"] for name in ("ana", "ben")]
    # 10 / 4 rounds, at 0.02 dollars and 8 seconds for 4.
    amounts = [(price["dollars"], price["seconds"], price["from"]) for price in prices]
    assert amounts == [(0.05, 20.0, run), (None, None, None)]


def test_a_study_joins_leaves_and_joins_again(lab):
    sent = {"base": SMALL, "vary": {"algorithm": {"lr": [0.1, 0.2]}}, "seeds": "3,4"}
    assert lab.call("ana", "POST", "/studies/check", sent).json["runs"] == 4
    answers = [lab.call("ana", "POST", "/studies", sent, [("idempotency-key", "lr")]) for _ in range(2)]
    assert ([answer.status for answer in answers], answers[0].json["runs"]) == ([201, 200], answers[1].json["runs"])
    study = answers[0].json["id"]
    assert [run["setting"] for run in answers[0].json["runs"]] == ["lr-0.1-s3", "lr-0.1-s4", "lr-0.2-s3", "lr-0.2-s4"]
    for verb, status in (("stop", "stopped"), ("resume", "queued")):
        runs = lab.call("ana", "POST", f"/studies/{study}/{verb}").json["runs"]
        assert {(run["status"], run["study"]) for run in runs} == {(status, study)}


def test_runs_are_listed_in_pages_and_by_status(lab):
    runs, pages, query = [lab.submit("ana", seed=seed) for seed in range(5)], [], "limit=2"
    lab.call("ana", "POST", f"/runs/{runs[2]}/stop")
    for _ in range(3):
        page = lab.call("ana", "GET", "/runs", query=query).json
        pages.append([run["id"] for run in page["runs"]])
        query = f"limit=2&cursor={page['cursor']}"
    assert (pages, page["cursor"]) == ([runs[:2:-1], runs[2:0:-1], runs[:1]], None)
    assert [run["id"] for run in lab.call("ana", "GET", "/runs", query="status=stopped").json["runs"]] == [runs[2]]


def test_a_run_is_stopped_and_resumed_with_other_limits(lab):
    run = lab.submit("ana")
    sent = [("resume", None), ("stop", None), ("stop", None), ("resume", {"stop": {"rounds": 9, "dollars": 2}})]
    assert [lab.call("ana", "POST", f"/runs/{run}/{verb}", body).status for verb, body in sent] == [409, 200, 409, 200]
    # While the run trains, a new limit interrupts it.
    lab.runs.begin(run)
    assert lab.call("ana", "POST", f"/runs/{run}/resume", {"stop": {"dollars": 3}}).json["status"] == "running"
    lab.runs.end(run, "interrupted", "")
    row = lab.runs.find("ana", run)
    assert (row.status, row.limit_settings) == ("queued", ["stop.rounds=9", "stop.dollars=3"])


def test_the_right_to_code_and_refusals_are_audited(lab):
    forged = SMALL | {"task": {"name": "a:b\n2026-01-01T00:00:00 ben forged"}}
    named = SMALL | {"log": {"to": ["csv"]}}
    assert [lab.call("ana", "POST", "/submissions", body).status for body in (forged, named)] == [403, 403]
    lab.owners.change(Owner(name="ana", code=True))
    assert lab.call("ana", "POST", "/submissions", named).status == 201
    deeds = [(deed.owner, deed.action, "\n" in deed.subject) for deed in lab.runs.deeds(None, 9)]
    assert deeds == [("ana", "submit", False), ("ana", "refused", False), ("ana", "refused", False)]


def test_a_thousand_unknown_keys_get_one_suggestion():
    document = {"algorithm": {f"learning_{key}": key for key in range(1000)}}
    with cProfile.Profile() as profile, pytest.raises(ConfigError, match=r"no key algorithm\.learning_0"):
        convert(document, "")
    calls = {place[2]: row[1] for place, row in pstats.Stats(profile).stats.items()}
    # Old names are looked for and replaced: twice two tables.
    assert (calls["answer"], calls["flatten"]) == (1, 4)
