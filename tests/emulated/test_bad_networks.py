"""Runs over a network that is slow, lossy and forgetful: same weights, nothing doubled, an honest bill."""

import json
import socket
from contextlib import closing
from http.client import HTTPConnection
from itertools import count
from urllib.parse import urlsplit

import pytest
from account_counts import READS, WRITES, Counted, billed
from emulated_runs import detach, same, summary

from aws_emulator.network import PATH
from marless.functions.function_specs import DEPLOYED

# For each kind, the conditions of the network and its name in the counts of events.
KINDS = {
    "slow": ({"latency_s": 0.02, "bytes_per_s": 3e6}, "latency"),
    "forgetful": ({"forget_after_s": 0.01}, "kept"),
    "dropping": ({"drop": 0.1}, "drop"),
    "tearing": ({"tear": 0.1}, "tear"),
    "losing": ({"lose": 0.1}, "lose"),
}
DRIVEN = {
    "carried": ("attempts=10", "placement.rule=split", "placement.inline_objects=true", "checkpoint_every=2"),
    "stored": ("attempts=10", "placement.rule=split", "placement.inline_objects=false"),
}
# The most GB-seconds of an attempt with a lost answer: a time-out of 60 s and a start of 10 s at 1,769 MB.
LOST_GB_S = 70 * 1769 / 1024
# The units of the last write and read. If they are repeated, no later write can record it.
LAST_UNITS = 4

NUMBERS = count()


@pytest.fixture
def network(place):
    """Sets the conditions of the network. Returns the events since it was last made perfect."""
    address = urlsplit(place.account.whereabouts.endpoint)

    def ask(method, body=None):
        """Asks over a connection that probes: else the network forgets it if a busy machine sends late."""
        connection = HTTPConnection(address.netloc, timeout=60)
        connection.sock = socket.socket()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 100)
        connection.sock.connect((address.hostname, address.port))
        with closing(connection):
            connection.request(method, PATH, body)
            return json.load(connection.getresponse())

    def change(conditions=None):
        happened = ask("GET")
        ask("POST", json.dumps(conditions)) if conditions else ask("DELETE")
        return happened

    yield change
    change()


def is_covered(bill, counted, faults):
    """The bill is at least the account's count, and at most `faults` reservations of lost requests more."""
    written, read = counted.units(*WRITES), counted.units(*READS)
    # Beside the run: the command checks once whether it exists.
    units = {
        "ledger writes": written["state"] + written["checkpoint"],
        "ledger reads": read["state"] + read["checkpoint"] - 1,
    }
    gets = counted.requests("GET", by="function") + counted.requests("HEAD")
    requests = {"s3 puts": counted.requests("PUT"), "s3 gets": gets, "s3 lists": counted.requests("LIST")}
    for line, counted_units in units.items():
        assert bill[line] >= counted_units - (LAST_UNITS if faults else 0), line
        assert faults or bill[line] == counted_units, line
    for line, number in {**requests, "lambda requests": len(counted.calls)}.items():
        assert bill[line] >= number, line
        assert faults or bill[line] == number, line
    assert bill["lambda requests"] <= len(counted.calls) + faults
    for role in DEPLOYED:
        assert 0 <= float(bill[f"{role} compute"] - counted.gb_s(role)) <= faults * LOST_GB_S, role


def some_and_all(*quick):
    """Every kind until 500 of its faults happened for each way to drive. A few runs of the kinds `quick` at once."""
    return [
        pytest.param(kind, enough, marks=[] if enough == 1 else pytest.mark.conformance, id=f"{kind}-{enough}")
        for enough in (1, 500)
        for kind in KINDS
        if enough > 1 or kind in quick
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("driven", DRIVEN)
@pytest.mark.parametrize(("kind", "enough"), some_and_all("forgetful", "tearing", "losing"))
def test_a_bad_network_changes_no_driven_run(place, marless, expected, network, kind, enough, driven):
    conditions, name_of_fault = KINDS[kind]
    total, settings = 0, DRIVEN[driven]
    while total < enough:
        run = f"over-{kind}-{driven}-{next(NUMBERS)}"
        network(conditions)
        said = marless.train(run, *settings, "--backend", "emulated")
        happened = network()
        assert said.code == 0, said.err
        same(summary(place.home, run), expected(marless, *settings))
        lossy = name_of_fault in ("drop", "tear", "lose")
        is_covered(billed(place, run), Counted(place, run), happened.get(name_of_fault, 0) if lossy else 0)
        assert "forgotten" not in happened
        total += happened.get(name_of_fault, 0)
    print(f"{kind}, {driven}: {total} times in runs until {run}")


@pytest.mark.parametrize(("kind", "enough"), some_and_all("losing"))
def test_a_bad_network_changes_no_detached_run(place, marless, finished, expected, network, kind, enough):
    conditions, name_of_fault = KINDS[kind]
    total = 0
    while total < enough:
        runs = [f"away-{kind}-{next(NUMBERS)}" for _ in range(1 if enough == 1 else 10)]
        network(conditions)
        for run in runs:
            detach(marless, run)
        for found in finished(*runs):
            same(found, expected(marless))
        total += network().get(name_of_fault, 0)
        for run in runs:
            bill, counted = billed(place, run), Counted(place, run)
            assert bill["s3 puts"] == counted.requests("PUT", by="function")
            assert bill["lambda requests"] <= len(counted.calls)
    print(f"{kind}, detached: {total} times in runs until {runs[-1]}")
