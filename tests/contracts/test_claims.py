"""Claims on objects that are to be made once, in the emulated account's S3."""

import threading
import time

import pytest

from marless.functions.errors import NoSuchObject
from marless.infra.aws.claimed_storage import ClaimedStorage

LONGEST_S = 30.0


@pytest.fixture
def storages(account, run):
    return [ClaimedStorage(account.cloud, account.bucket, f"tenants/one/runs/{run}") for _ in range(2)]


def make(storage, key, made, longest_s=LONGEST_S, work_s=0.0):
    """Makes the object unless it is there, as a resource does with an answer."""
    with storage.claim(key, longest_s):
        try:
            return storage.get(key)
        except NoSuchObject:
            time.sleep(work_s)
            made.append(key)
            storage.put(key, b"answer")
            return b"answer"


def test_one_claimer_makes_object_while_other_waits(storages):
    made, found = [], []
    threads = [
        threading.Thread(target=lambda each=each: found.append(make(each, "answers/a", made, work_s=0.3)))
        for each in storages
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (made, found) == (["answers/a"], [b"answer", b"answer"])


def test_uncontended_claim_costs_two_puts_and_a_look(storages):
    one, _ = storages
    make(one, "answers/a", [])
    assert (one.puts, one.gets) == (2, 1)


def test_whoever_fails_gives_the_claim_up_at_once(storages):
    one, other = storages
    with pytest.raises(ValueError), one.claim("answers/a", LONGEST_S):
        raise ValueError
    since, made = time.monotonic(), []
    assert make(other, "answers/a", made) == b"answer"
    assert made and time.monotonic() - since < LONGEST_S / 3


@pytest.mark.parametrize("longest_s", [0.5, 1.0])
def test_claim_of_dead_process_expires(storages, longest_s):
    one, other = storages
    time.sleep((0.9 - time.time()) % 1)  # the clock of S3 counts whole seconds, and soon has the next
    one.put("answers/a.claim-0", b"somebody who was killed")
    since, made = time.monotonic(), []
    assert make(other, "answers/a", made, longest_s=longest_s) == b"answer"
    assert made and 0.9 * longest_s < time.monotonic() - since < 10


def test_late_claimer_finds_object_and_holds_no_claim(storages):
    one, other = storages
    make(one, "answers/a", [])
    made = []
    assert make(other, "answers/a", made) == b"answer"
    assert made == []
