"""A run's lease: either one process or the cloud drives it."""

import pytest
from simulated import MemoryLedger

from marless.coordinator.drive import lease
from marless.coordinator.drive.lease import CLOUD, KEPT_S, RENEW_S, Keeper, Lease, LeaseHeld
from marless.functions.encoding import to_json
from marless.functions.errors import StaleVersion


@pytest.mark.parametrize(
    ("left", "words"), [(1, "process 1 on a"), (42.5, "if that has ended, try again in 43 s")], ids=["who", "how long"]
)
def test_a_second_process_learns_who_drives_how_long(left, words):
    ledger = MemoryLedger()
    Keeper(ledger, "process 1 on a", lambda: 0.0)
    with pytest.raises(LeaseHeld, match=words):
        lease.take(ledger, "process 2 on b", lambda: KEPT_S - left)


def test_known_dead_process_is_succeeded_immediately():
    ledger = MemoryLedger()
    now = [0.0]
    keeper = Keeper(ledger, "one", lambda: now[0], "here 1")
    with pytest.raises(LeaseHeld):
        lease.take(ledger, "two", lambda: 1.0, "here 2", lambda process: process == "here 3")
    now[0] = RENEW_S
    keeper.renew()
    lease.take(ledger, "two", lambda: RENEW_S, "here 2", lambda process: process == "here 1")
    assert lease.read(ledger)[0].process == "here 2"
    with pytest.raises(StaleVersion):
        now[0] = 2 * RENEW_S
        keeper.renew()


@pytest.mark.parametrize("process", [(), ("here 1",)], ids=["unknown", "ended"])
def test_cloud_holds_run_until_release(process):
    ledger = MemoryLedger()
    lease.hand_over(ledger, lease.take(ledger, "one", lambda: 0.0, *process), resume=7)
    assert lease.read(ledger)[0] == Lease(holder=CLOUD, resume=7)
    with pytest.raises(LeaseHeld, match="marless status --follow"):
        lease.take(ledger, "one", lambda: 1e12, "here 2", lambda process: True)
    lease.clear(ledger, "it could not")
    assert lease.read(ledger)[0] == Lease(problem="it could not")
    lease.take(ledger, "one", lambda: 0.0)
    assert lease.read(ledger)[0].holder == "one"


def test_only_holder_can_hand_run_over():
    ledger = MemoryLedger()
    first = lease.take(ledger, "one", lambda: 0.0)
    second = lease.take(ledger, "two", lambda: KEPT_S)
    with pytest.raises(LeaseHeld):
        lease.hand_over(ledger, first, None)
    lease.hand_over(ledger, second, None)
    with pytest.raises(LeaseHeld, match="marless status --follow"):
        lease.take(ledger, "three", lambda: 1e12)


def test_renewed_hold_outlives_its_first_end():
    ledger, now = MemoryLedger(), [0.0]
    keeper = Keeper(ledger, "one", lambda: now[0])
    writes = ledger.commits
    for _ in range(200):
        now[0] += 1.0
        keeper.renew()
    assert ledger.commits - writes == 200 // RENEW_S
    with pytest.raises(LeaseHeld):
        lease.take(ledger, "two", lambda: now[0])
    keeper.release()
    lease.take(ledger, "two", lambda: now[0])


def test_process_that_slept_too_long_learns_of_successor():
    ledger, now = MemoryLedger(), [0.0]
    keeper = Keeper(ledger, "one", lambda: now[0])
    lease.take(ledger, "two", lambda: KEPT_S + 1)
    now[0] = KEPT_S + 2
    with pytest.raises(StaleVersion):
        keeper.renew()
    keeper.release()
    assert lease.read(ledger)[0].holder == "two"


def test_only_the_cloud_is_asked_to_stop():
    ledger = MemoryLedger()
    assert not lease.ask_to_stop(ledger)
    Keeper(ledger, "one", lambda: 0.0)
    assert not lease.ask_to_stop(ledger)
    lease.hand_over(ledger, lease.take(ledger, "one", lambda: 0.0), None)
    assert lease.ask_to_stop(ledger)
    assert lease.read(ledger)[0].stop


def test_one_of_two_simultaneous_takers_is_refused():
    class Racing(MemoryLedger):
        def commit(self, item, body, version):
            if not self.commits:
                super().commit(item, to_json(Lease(holder="quicker", until=99.0)), version)
            return super().commit(item, body, version)

    with pytest.raises(LeaseHeld, match="just begun"):
        lease.take(Racing(), "one", lambda: 0.0)
