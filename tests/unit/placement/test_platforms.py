"""Estimates of functions' times on other platforms."""

from dataclasses import replace

import pytest

from coordinator.pricing.latency import EMULATED, EXPRESS, STANDARD, Latency
from functions.contract import Usage
from marless.estimation.platforms import Call, DeployedFunctions, InvocationTime, LocalWorkers, makespan_s

# Round numbers: 30 ms a PUT, 20 a GET, 10 a megabyte, 1 s of INIT after 300 unbilled ms.
LATENCY = Latency(
    put=30, get=20, per_mb=10, ledger=5, invoke=25, event=60, hand_over=15, away=40, cold=300, init=1000, turn=40
)
MEMORY = {"actor": 1769, "learner": 3538, "coordinator": 1769}


def there(**fields):
    defaults = {"latency": LATENCY, "width": 10, "memory_mb": MEMORY, "mb_per_vcpu": 1769, "wave_s": 0.5}
    return DeployedFunctions(**defaults | fields)


def calls(function, *durations_ms, usage=None):
    return [Call(function, duration_ms, usage or Usage()) for duration_ms in durations_ms]


def test_storage_is_waited_for_one_request_after_the_other():
    usage = Usage(puts=2, gets=3, bytes_written=2**20, bytes_read=2**19)
    # 2 x 30 + 3 x 20 + 1.5 x 10
    assert LATENCY.storage_ms(usage) == 135.0
    ran, _ = there().wave(calls("learner", 100.0, usage=usage))
    assert ran[0].duration_ms == 235.0


def test_a_share_of_a_vcpu_lengthens_work_and_start_but_not_waiting():
    half = there(memory_mb={"actor": 884.5})
    [ran], _ = half.wave(calls("actor", 100.0, usage=Usage(gets=1)))
    assert ran == InvocationTime(duration_ms=2 * 100 + 20, init_ms=2 * 1000)
    # The bill scales the times of whole cores, the platform does not.
    [whole], _ = there(memory_mb={"actor": 884.5}, mb_per_vcpu=None).wave(calls("actor", 100.0))
    assert whole == InvocationTime(duration_ms=100.0, init_ms=1000.0)


def test_every_environment_starts_once_and_there_are_as_many_as_the_widest_wave():
    platform = there(width=3)
    starts = [[took.init_ms > 0 for took in platform.wave(calls("actor", *[1.0] * tasks))[0]] for tasks in (2, 1, 5, 4)]
    assert starts == [[True, True], [False], [False, False, True, False, False], [False] * 4]
    # Another function has separate environments, in the same wave.
    ran, _ = platform.wave([*calls("actor", 1.0), *calls("learner", 1.0, 1.0)])
    assert [took.init_ms for took in ran] == [0.0, 1000.0, 1000.0]


def test_a_wave_takes_its_longest_call_with_its_start_and_the_way_there_and_back():
    platform = there()
    # 1,000 of INIT, 300 before it, 200 of work; then warm.
    assert platform.wave(calls("actor", 100.0, 200.0))[1] == pytest.approx(0.5 + 1.5)
    assert platform.wave(calls("actor", 100.0, 200.0))[1] == pytest.approx(0.5 + 0.2)
    # Twenty of 100 ms, ten at once; all environments but two are new.
    assert there(wave_s=0.0, latency=replace(LATENCY, init=0, cold=0)).wave(calls("actor", *[100.0] * 20))[1] == 0.2
    assert makespan_s([], 4) == 0.0


def test_here_a_start_is_paid_for_once_and_durations_are_as_measured():
    here = LocalWorkers(workers=2, init_ms={"actor": 80.0}, overhead_s=0.01)
    ran, seconds = here.wave(calls("actor", 10.0, 20.0, usage=Usage(puts=5)))
    assert ran == [InvocationTime(10.0, 80.0), InvocationTime(20.0, 0.0)]
    assert seconds == pytest.approx(0.02 + 0.01)
    assert here.wave(calls("actor", 10.0))[0] == [InvocationTime(10.0, 0.0)]


def test_what_a_wave_takes_beside_its_tasks_is_the_sum_of_its_ways():
    # A commit and a call from outside, each over the internet: 40 + 5 + 40 + 25.
    assert LATENCY.attended_wave_s == pytest.approx(0.110)
    # A turn works 40 ms and waits for six requests to the table, headers and handing over: 30 + 20 + 15.
    assert LATENCY.turn_ms == 105
    # The last report, its wake-up, the turn, and the way of the next events: 5 + 15 + 60 + 105 + 60.
    assert LATENCY.detached_wave_s == pytest.approx(0.245)


def test_the_coordinator_starts_once():
    platform = there()
    assert [platform.start_up_ms("coordinator") for _ in range(3)] == [1000.0, 0.0, 0.0]
    assert platform.run_ms("coordinator", 40.0, 65.0) == 105.0


def test_faster_storage_is_faster_and_nothing_is_far_from_the_emulation():
    usage = Usage(puts=1, gets=1)
    assert EMULATED.storage_ms(usage) < EXPRESS.storage_ms(usage) + 1 < STANDARD.storage_ms(usage)
    assert EMULATED.attended_wave_s < STANDARD.attended_wave_s < STANDARD.detached_wave_s
