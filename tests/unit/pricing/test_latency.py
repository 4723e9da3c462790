"""The time of requests in addition to tasks' work, in deployments and in the emulated account."""

import pytest

from marless.coordinator.placement.coordination_cost import EMULATED, EXPRESS, STANDARD, Latency
from marless.functions.messages.usage import Usage

# Round numbers: 30 ms a PUT, 20 a GET, 10 a megabyte, 1 s of INIT after 300 unbilled ms.
LATENCY = Latency(
    put=30, get=20, per_mb=10, ledger=5, invoke=25, event=60, hand_over=15, away=40, cold=300, init=1000, turn=40
)


def test_storage_requests_are_waited_for_sequentially():
    usage = Usage(puts=2, gets=3, bytes_written=2**20, bytes_read=2**19)
    # 2 x 30 + 3 x 20 + 1.5 x 10
    assert LATENCY.storage_ms(usage) == 135.0


def test_wave_overhead_is_sum_of_its_steps():
    # A commit and a call from outside, each over the internet: 40 + 5 + 40 + 25.
    assert LATENCY.attended_wave_s == pytest.approx(0.110)
    # A turn works 40 ms and waits for six requests to the table, headers and handing over: 30 + 20 + 15.
    assert LATENCY.turn_ms == 105
    # The last report, its wake-up, the turn, and the way of the next events: 5 + 15 + 60 + 105 + 60.
    assert LATENCY.detached_wave_s == pytest.approx(0.245)


def test_faster_storage_is_faster_and_emulation_agrees():
    usage = Usage(puts=1, gets=1)
    assert EMULATED.storage_ms(usage) < EXPRESS.storage_ms(usage) + 1 < STANDARD.storage_ms(usage)
    assert EMULATED.attended_wave_s < STANDARD.attended_wave_s < STANDARD.detached_wave_s
