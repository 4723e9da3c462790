"""Runs with environments that ask a resource, which is a function of the tenant's stack."""

import json
import math
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from account_counts import Counted, billed
from commands import SMALL
from emulated_runs import summary

from marless.cli.app import main
from marless.coordinator.pricing.bill import LOG_BYTES
from marless.functions.resources.port import ResourceCall, ResourceFault
from marless.infra.aws.resource_host import LambdaResources
from marless.infra.aws.resource_settings import AskableFunction

JUDGE = Path(__file__).with_name("judges") / "slow_judge.py"
SLOTS = 2
# The faults of these answers, and how often they are asked.
BAD = {
    "raises": ("ValueError: too hard (2 attempts)", 2),
    "dies": ("Runtime.ExitError: RequestId: ", 2),
    "hangs": ("no answer within 2 s (2 attempts)", 2),
    "mumbles": ("it answered str, not bytes (2 attempts)", 2),
    "overflows": ("its answer has 7,340,032 bytes; Lambda takes 4,718,592, as it travels in base64 (2 attempts)", 2),
    "asks_another": ("ResourceFault: resource 'judge': a resource cannot ask a resource (2 attempts)", 2),
}
TENANT = ("--backend", "emulated", "--tenant", "asks")
ASKS = ("task.judge=judge", "resources.judge.serve=slow_judge:grade", f"resources.judge.slots={SLOTS}")
RUN = (*ASKS, "stop.rounds=2", "actors.rollouts=4", "actors.num_envs=2")


@pytest.fixture(scope="module", autouse=True)
def deployment(place):
    shutil.copy(JUDGE, place.home)
    resources = (
        f"judge=slow_judge:grade,slots={SLOTS}",
        "hasty=slow_judge:grade,timeout_s=1,attempts=1",
        "wise=slow_judge:ponder,slots=2",
        "wide=slow_judge:tells_cores,memory_mb=3538",
        *(f"{name}=slow_judge:{name},timeout_s=2,attempts=2" for name in BAD),
    )
    options = [option for resource in resources for option in ("--resource", resource)]
    assert main(["cloud", "deploy", *TENANT, *options, "--yes"]) == 0


@pytest.fixture
def notes(place):
    """The judge's notes since the test began: digest of the question, begin and end."""
    path = place.home / "slow_judge.jsonl"
    path.write_text("")
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def most_at_once(notes):
    changes = sorted([(began, 1) for _, began, _ in notes] + [(ended, -1) for *_, ended in notes])
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most


@pytest.mark.parametrize(
    ("name", "settings"),
    [("asks", ()), pytest.param("asks-once", ("resources.judge.keep=true",), marks=pytest.mark.slow)],
)
def test_run_is_billed_its_use_of_few_slots(place, marless, notes, name, settings):
    said = marless.train(name, *RUN, *settings, *TENANT)
    assert said.code == 0, said.err
    bill, counted = billed(place, name), Counted(place, name)
    assert bill["judge actions"] == counted.gb_s("judge") > 0
    assert bill["lambda requests"] == counted.billed_requests
    assert bill["logs"] * 2**30 == LOG_BYTES * counted.billed_requests
    assert bill["s3 puts"] == counted.requests("PUT")
    assert bill["s3 gets"] == counted.requests("GET", by="function") + counted.requests("HEAD")
    # If two ask the same at once, and keep the answer, one waits for it in a separate function.
    waiting = counted.invocations("judge") - len(notes())
    assert waiting == 0 if not settings else len(notes()) == len({digest for digest, *_ in notes()})
    assert most_at_once(notes()) == SLOTS
    assert marless.train(f"{name}-here", *RUN, *settings).code == 0
    assert summary(place.home, name)["weights_sha256"] == summary(place.home, f"{name}-here")["weights_sha256"]


def test_a_storm_of_throttles_costs_time_alone(place, marless, notes):
    place.inject({"service": "lambda", "fault": "too_many", "key": "_judge", "count": 60})
    said = marless.train("storm", *RUN, *TENANT)
    assert said.code == 0, said.err
    assert Counter(fault["fault"] for fault in place.struck())["too_many"] == 60
    bill, counted = billed(place, "storm"), Counted(place, "storm")
    assert bill["judge actions"] == counted.gb_s("judge") and bill["lambda requests"] == counted.billed_requests
    assert counted.invocations("judge") == len(notes())


def test_permanently_busy_resource_fails_run_in_one_line(place, marless):
    place.inject({"service": "lambda", "fault": "too_many", "key": "_hasty", "count": 10**6})
    hasty = ("task.judge=hasty", "resources.hasty.serve=slow_judge:grade")
    said = marless.train("never", *hasty, *TENANT)
    assert said.code == 1
    assert re.search(r"resource 'hasty': none of its 1 slot became free within 1 s", said.err[0])


def test_cached_answers_are_asked_once_despite_killed_actors(place, marless, notes):
    put = {"service": "s3", "functions": True, "action": "PUT"}
    place.inject(
        {**put, "fault": "kill", "key": "trajectory", "count": 2},
        {**put, "fault": "lost_reply", "key": ".claim-", "count": 2},
        {**put, "fault": "kill", "key": "/answers/", "skip": 6, "count": 2},
    )
    said = marless.train("kept", *RUN, "resources.judge.keep=true", *TENANT)
    assert said.code == 0, said.err
    assert Counter(fault["fault"] for fault in place.struck()) == {"kill": 4, "lost_reply": 2}
    asked = Counter(digest for digest, *_ in notes())
    assert max(asked.values()) == 1
    assert marless.train("kept-here", *RUN).code == 0
    assert summary(place.home, "kept")["weights_sha256"] == summary(place.home, "kept-here")["weights_sha256"]


@pytest.mark.parametrize("name", BAD)
def test_bad_answer_is_one_line_with_metered_attempts(place, name):
    function = AskableFunction(f"marless-asks_{name}:live", slots=1, timeout_s=2.0, attempts=2)
    (outcome,) = LambdaResources(place.cloud, {name: function}).ask(name, [ResourceCall(b"why?")])
    error, attempts = BAD[name]
    assert outcome.error.startswith(error) and "\n" not in outcome.error
    assert outcome.attempts == attempts and outcome.run_ms > 0


def test_questions_and_answers_pass_unchanged_in_their_order(place):
    function = AskableFunction("marless-asks_judge:live", slots=SLOTS, timeout_s=20.0, attempts=1)
    resources = LambdaResources(place.cloud, {"judge": function})
    questions = [bytes(range(256)), b"", b"a" * 1_000_000]
    first, again = (resources.ask("judge", [ResourceCall(each) for each in questions]) for _ in range(2))
    assert [outcome.answer for outcome in first] == [outcome.answer for outcome in again]
    assert len({outcome.answer for outcome in first}) == len(questions) and not any(each.error for each in first)
    (outcome,) = resources.ask("judge", [ResourceCall(b"a" * 5_000_000)])
    assert (outcome.error, outcome.attempts) == (
        "a question of 5,000,000 bytes is too large: Lambda takes 4,718,592, as it travels in base64",
        0,
    )
    with pytest.raises(ResourceFault, match="resource 'other' is not deployed: marless cloud deploy --resource other="):
        resources.ask("other", [ResourceCall(b"a")])


def test_action_has_cores_bought_by_function_memory(place):
    function = AskableFunction("marless-asks_wide:live", slots=1, timeout_s=20.0, attempts=1)
    (outcome,) = LambdaResources(place.cloud, {"wide": function}).ask("wide", [ResourceCall(b"")])
    assert outcome.answer == b"2"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("placement", ["split", "whole"])
def test_a_detached_run_asks_too(place, marless, finished, notes, placement):
    name = f"asks-detached-{placement}"
    said = marless.train(name, *RUN, f"placement.rule={placement}", *TENANT, "--detach")
    assert said.code == 0, said.err
    finished(name)
    bill, counted = billed(place, name), Counted(place, name)
    assert bill["judge actions"] == counted.gb_s("judge") > 0
    assert counted.invocations("judge") == len(notes())
    assert bill["s3 puts"] == counted.requests("PUT")


# A busy machine makes each second dearer, so only a quiet one can show an upper bound.
@pytest.mark.parametrize(
    "dearest", [pytest.param(math.inf, marks=pytest.mark.slow), pytest.param(1.15, marks=pytest.mark.conformance)]
)
def test_an_estimate_knows_what_waiting_for_slots_costs(place, marless, dearest):
    # Every rollout asks twice, at its end. Eight share two slots.
    longer = (
        *("task.name=mpe/simple_spread", "task.judge=wise", "resources.wise.serve=slow_judge:ponder"),
        *("resources.wise.slots=2", "stop.rounds=12", "actors.rollouts=8", "actors.num_envs=2"),
    )
    said = marless("estimate", *SMALL, *longer, "--backend", "emulated", "--workers", "8", "--json")
    assert said.code == 0, said.err
    estimate = json.loads("\n".join(said.out))
    estimated = estimate["bill"]
    assert 0.2 < estimate["waiting_dollars"] / estimated["total"] < 0.8
    assert marless.train("estimated", *longer, *TENANT).code == 0
    bill = json.loads((place.home / "runs" / "estimated" / "bill.json").read_text())
    assert 1 / 1.15 < bill["total"] / estimated["total"] < dearest


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (("resources.judge.serve=slow_judge:ponder",), "judge=slow_judge:ponder"),
        (("resources.judge.slots=9",), "slots: 9 was asked for, and 2 is deployed"),
        (("resources.judge.rate=5/s",), "on AWS only slots limit a resource"),
        (("resources.judge.sandbox=bubblewrap",), "Lambda has no bubblewrap"),
        (("resources.other.serve=slow_judge:grade",), "resources.other is not deployed"),
        (("resources.judge.serve=", "resources.judge.command=cat"), "functions on AWS have no such program"),
    ],
)
def test_resources_missing_in_deployment_are_refused(place, marless, settings, line):
    said = marless.train("refused", *ASKS, *settings, *TENANT)
    assert said.code == 2 and len(said.err) == 1
    assert line in said.err[0]
