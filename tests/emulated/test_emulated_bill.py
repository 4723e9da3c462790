"""The bill of a run, line by line, against the emulated account's own request counter.

docs/explanation/cost.md, "Not included", names the parts that a bill leaves out. They are measured here.
"""

import json
import re
from collections import Counter
from decimal import Decimal

import pytest
from account_counts import READS, WRITES, Counted, billed
from emulated_runs import summary

from marless.coordinator.pricing.bill import LOG_BYTES
from marless.functions.function_specs import DEPLOYED

HERE = ("--backend", "emulated")
# For each task, 50 ms at 1,769 MB: rounding, the runtime's work around the handler, and an environment's work after
# its last report. On a slow or loaded machine it takes longer, as the handler's own work does: no more than a third.
UNSEEN_GB_S, UNSEEN_SHARE = Decimal("0.086"), Decimal(1) / 3


def unseen_gb_s(counted, role):
    """The most that a role's functions can have worked where they do not measure themselves."""
    return max(counted.invocations(role) * UNSEEN_GB_S, counted.gb_s(role) * UNSEEN_SHARE)


def log_bytes(place, role):
    """Bytes of the log of each of a role's invocations, by its id: from its START line to its REPORT line."""
    group, found, serving = f"/marless/{place.deployment.stack}/{role}", Counter(), {}
    for page in place.cloud.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group):
        for event in page["events"]:
            stream, text = event["logStreamName"], event["message"]
            if text.startswith("START RequestId: "):
                serving[stream] = text.split()[2]
            found[serving.get(stream)] += len(text.encode())
    return found


INLINED = ("placement.rule=split", "placement.inline_objects=true", "checkpoint_every=2")


def test_opponents_that_are_brought_are_on_the_bill(place, marless):
    chase = ("task.name=mpe/simple_tag", "stop.rounds=1")
    assert marless.train("before-opponents", *chase).code == 0
    settings = (*chase, "opponents.side=0", "opponents.policies=before-opponents", "--backend", "emulated")
    assert marless.train("opponents", *settings).code == 0
    bill, counted = billed(place, "opponents"), Counted(place, "opponents")
    assert bill["s3 puts"] == counted.requests("PUT") > 0
    assert bill["s3 gets"] == counted.requests("GET", by="function") + counted.requests("HEAD")
    assert bill["s3 lists"] == counted.requests("LIST") == 1


@pytest.mark.parametrize(("name", "settings"), [("stored", ()), ("carried", INLINED)])
def test_driven_run_bill_equals_account_counts(place, marless, name, settings):
    said = marless.train(name, *settings, "--backend", "emulated")
    assert said.code == 0, said.err
    bill, counted = billed(place, name), Counted(place, name)
    assert bill["s3 puts"] == counted.requests("PUT") > 0
    assert bill["s3 gets"] == counted.requests("GET", by="function") + counted.requests("HEAD")
    assert bill["s3 lists"] == counted.requests("LIST") == 1
    written, read = counted.units(*WRITES), counted.units(*READS)
    assert bill["ledger writes"] == written["state"] + written["checkpoint"]
    # The command checks once whether the run exists before it starts it.
    assert bill["ledger reads"] == read["state"] + read["checkpoint"] - 1
    assert bill["lambda requests"] == counted.billed_requests == sum(map(counted.invocations, DEPLOYED))
    for role in DEPLOYED:
        assert bill[f"{role} compute"] == counted.gb_s(role)
    assert bill["data transfer out"] * 2**30 == sum(call["answer"] for call in counted.calls) > 0
    # Around the run: its manifest of more than 4 KB, its lease, and at the end the policies for the files.
    assert (written["plan"], read["plan"], read["lease"]) == (5, 2, 2) and written["lease"] >= 2
    assert set(written) == set(read) == {"state", "checkpoint", "plan", "lease"}
    assert 0 < counted.requests("GET", by="operator") <= 16
    # At the list prices of us-east-1.
    own = {row["run"]: row for row in map(json.loads, marless("cloud", "bill", "--json", *HERE).out)}[name]
    dollars = {role: float(counted.gb_s(role)) * 0.0000133334 for role in DEPLOYED if counted.gb_s(role)}
    puts, gets = counted.requests("PUT", "LIST"), counted.requests("GET", by="function") + counted.requests("HEAD")
    units = 0.625 * (written["state"] + written["checkpoint"]) + 0.125 * (read["state"] + read["checkpoint"] - 1)
    dollars |= {"requests": counted.billed_requests * 0.2 / 1e6, "storage": (5 * puts + 0.4 * gets + units) / 1e6}
    dollars["transfer"] = sum(call["answer"] for call in counted.calls) * 0.09 / 2**30
    assert {kind: own["kinds"][kind] for kind in dollars} == pytest.approx(dollars)
    assert own["dollars"] == pytest.approx(sum(dollars.values()) + own["kinds"].get("logs", 0))


def test_default_cloud_placement_is_cheapest_with_same_weights(place, marless):
    bills, weights = {}, set()
    for name, settings in {"by-default": (), "a-learner-each": ("placement.rule=fused",)}.items():
        said = marless.train(name, *settings, "--backend", "emulated")
        assert said.code == 0, said.err
        assert billed(place, name)["s3 puts"] == Counted(place, name).requests("PUT")
        bills[name] = billed(place, name)
        weights.add(summary(place.home, name)["weights_sha256"])
    assert len(weights) == 1
    for line in ("s3 puts", "s3 gets", "lambda requests"):
        assert bills["by-default"][line] < bills["a-learner-each"][line]


REPLAYED = ("algorithm.batch_size=8", "algorithm.buffer_size=400", "sharing.rule=none", "stop.rounds=6")
AS_HERE = {
    "every-read": ("algorithm.name=ippo", "placement.rule=split"),
    "one-buffer": (*REPLAYED, "algorithm.name=qmix", "placement.rule=packed"),
    "a-buffer-each": (*REPLAYED, "algorithm.name=iql", "placement.rule=fused"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AS_HERE)
def test_billed_reads_equal_local_and_account_counts(place, marless, name):
    assert marless.train(f"{name}-here", *AS_HERE[name]).code == 0
    said = marless.train(name, *AS_HERE[name], "--backend", "emulated")
    assert said.code == 0, said.err
    bill, counted = billed(place, name), Counted(place, name)
    heads = counted.requests("HEAD")
    # A checkpoint in the cloud tags objects, after a look at each.
    assert bill["s3 gets"] - heads == billed(place, f"{name}-here")["s3 gets"]
    # Which environment serves a learner is chance, and with it which old rounds it reads.
    assert counted.requests("GET", by="function") == pytest.approx(int(bill["s3 gets"]) - heads, rel=0.05)


def test_detached_run_bill_equals_account_counts(place, marless, finished):
    # Environments that other runs started are on those runs' bills, or on none.
    assert marless.train("before", "--backend", "emulated").code == 0
    place.sweep("RequestResponse")
    said = marless.train("unwatched", "--backend", "emulated", "--detach")
    assert said.code == 0, said.err
    finished("unwatched")
    bill, counted = billed(place, "unwatched"), Counted(place, "unwatched")
    assert bill["s3 puts"] == counted.requests("PUT") > 0
    assert bill["s3 lists"] == counted.requests("LIST", by="function") == 1
    # An idle turn, because the sweep ran or another turn was first, commits no item that could record its use. All
    # others are exact. Such a turn reads the lease, the manifest, the state and both sets of an evaluated round. If the
    # end of the run overtook a turn, the bill is closed. The turn has also read the answers of two tasks and prepared
    # the last checkpoint, and looks at the state again.
    idle = counted.billed_requests - bill["lambda requests"]
    assert 0 <= idle <= 2
    gets = counted.requests("GET", "HEAD", by="function") - bill["s3 gets"]
    assert 0 <= gets <= idle * (2 + counted.requests("HEAD", by="function"))
    written, read = (counted.units(*kind, by="function") for kind in (WRITES, READS))
    # Its checkpoint, the state and the line of the last round, which have less than 4 KB each, may be refused.
    unbilled = sum(written[kind] for kind in ("state", "checkpoint", "set", "line")) - bill["ledger writes"]
    assert 0 <= unbilled <= 12 * idle
    # The end of the last turn: it releases the run and reads its entry in the list and, again, the lease. An idle turn
    # that finds the run ended releases it, too, or takes it off the list.
    assert 0 <= written["lease"] - 1 <= idle and 0 <= written["live"] - 1 <= idle
    tail = 2
    assert 0 <= sum(read.values()) - tail - bill["ledger reads"] <= 9 * idle
    for role in DEPLOYED:
        # Asynchronous functions measure themselves. The next turn in an idle turn's environment bills its compute. If
        # no turn follows, its compute is missing in the bill. It is no longer than the longest turns.
        most_s, off_s = unseen_gb_s(counted, role), counted.gb_s(role) - bill[f"{role} compute"]
        idle_s = sum(counted.longest_gb_s(role, idle)) if role == "coordinator" else 0
        assert counted.invocations(role) and -most_s < off_s < most_s + idle_s, role
        logs = log_bytes(place, role)
        assert (
            0 < max(logs[call["request_id"]] for call in counted.calls if f"-{role}:" in call["function"]) <= LOG_BYTES
        )
    assert bill["data transfer out"] == 0


TOO_SLOW = ("functions.evaluator.timeout_s=0.01", "evaluation.every=9", "evaluation.final_episodes=8192")
# Whichever part of the evaluation is first to fail for the last time.
TIMED_OUT = r"final/00\d failed after 3 attempts, last: the evaluator ran longer than its time-out of 0.01 s"


def test_driven_run_learns_of_timeout_from_reply(place, marless):
    said = marless.train("slow-here", *TOO_SLOW, "--backend", "emulated")
    assert said.code == 1 and re.search(TIMED_OUT, said.err[-1])
    bill, counted = billed(place, "slow-here"), Counted(place, "slow-here")
    assert bill["evaluator compute"] == counted.gb_s("evaluator") > 0


def test_timed_out_detached_attempt_is_billed_once(place, marless, finished):
    before, failed = place.dead_letters(), place.failed_runs()
    assert marless.train("slow-there", *TOO_SLOW, "--backend", "emulated", "--detach").code == 0
    finished("slow-there")
    said = marless("status", "--follow", "slow-there")
    assert said.code == 1 and re.search(TIMED_OUT, said.err[-1])
    bill, counted = billed(place, "slow-there"), Counted(place, "slow-there")
    calls, off_s = counted.invocations("evaluator"), counted.gb_s("evaluator") - bill["evaluator compute"]
    # They work for 10 ms, so that the work around the handler is a large share.
    assert calls >= 3 and abs(off_s) < 2 * unseen_gb_s(counted, "evaluator")
    assert place.dead_letters() == before
    assert place.failed_runs() > failed

    which = ("cloud", "logs", "slow-there", "--function", "evaluator")
    lines = [json.loads(line) for line in marless(*which, "--json").out]
    own = {line["request_id"]: line["correlation_id"] for line in lines if line["level"] == "ERROR"}
    ended = {line["request_id"]: line["correlation_id"] for line in lines if "billed_ms" in line["fields"]}
    # Lambda's lines about these invocations name no run. Their request ids do.
    assert ended == own and len(ended) >= 3
    gb_s = [line["fields"]["billed_ms"] * line["fields"]["function_memory_size"] for line in lines if not line["level"]]
    # Lambda may repeat an invocation under its id.
    assert len(gb_s) == calls and sum(gb_s) / Decimal(1024 * 1000) == counted.gb_s("evaluator")
    for line, text in zip(lines, marless(*which).out, strict=True):
        assert f"  {line['request_id'][:8]}  " in text and f"  task={line['correlation_id']}" in text
