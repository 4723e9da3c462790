"""Cores and rate of a resource in simulated time, served by the dispatcher: limits, idleness, waits and optima."""

import heapq
import random
from itertools import product
from math import exp, factorial, inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_pool import Arrival, SimulatedPool
from simulated_resource import SimulatedResource

from marless.infra.local.dispatch import Capacity, QueuedTask
from marless.infra.local.resources.elastic import CoreCurve, Cores, ElasticCores, Load, SpeedUp, side_by_side
from marless.infra.local.resources.rate_limit import RateLimit


def amdahl(divided, parts):
    """An action of a second on one core, with a divisible part."""
    return lambda cores: 1 - divided + divided / min(cores, parts)


def action(number, least=1, expected_s=1.0):
    return QueuedTask(number, "judge", expected_s, {"slots": 1.0, "cores": float(least)}, {})


def learnt(seconds, least, most, slots=9):
    """Cores of a resource that was measured on any number of cores."""
    elastic = ElasticCores(least, most, slots)
    for cores in list(range(least, most + 1)) * 100:
        elastic.add(cores, seconds(cores))
    return elastic


curves = st.builds(amdahl, st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0]), st.integers(1, 4))


@st.composite
def workloads(draw, rates=(0.0,), lanes="abc"):
    """A resource with some of its settings, and actions of different sizes that arrive for several runs."""
    total = draw(st.integers(1, 6))
    least = draw(st.integers(1, total))
    most = draw(st.integers(least, total))
    curve, slots, per_s = draw(curves), draw(st.integers(1, 6)), draw(st.sampled_from(rates))
    sizes = draw(st.lists(st.floats(0.05, 5.0), min_size=1, max_size=25))
    times = sorted(draw(st.floats(0.0, 10.0)) for _ in sizes)
    arrivals = [
        Arrival(at, draw(st.sampled_from(lanes)), action(number, least), 0.0) for number, at in enumerate(times)
    ]
    elastic = learnt(curve, least, most, slots) if draw(st.booleans()) else ElasticCores(least, most, slots)
    capacity = Capacity(slots, float(total))
    return SimulatedResource(
        capacity, dict.fromkeys(lanes, 1.0), arrivals, lambda n, k: sizes[n] * curve(k), elastic, per_s
    ), (least, most)


@given(workloads(rates=(0.0, 0.5, 3.0)))
@settings(max_examples=80, deadline=None)
def test_slots_cores_and_rate_are_never_exceeded(workload):
    pool, (least, most) = workload

    def within(pool):
        assert pool.in_use()["cores"] <= pool.capacity.cores and pool.free_slots() >= 0

    pool.run(after=within)
    assert sorted(start.choice.task.number for start in pool.started) == sorted(pool.actual_s)
    assert all(least <= cores <= most for cores in pool.widths.values())
    begun = [start.at for start in pool.started]
    if pool.per_s:
        for first, at in enumerate(begun):
            for later in range(first, len(begun)):  # any stretch of time, however a service counts
                assert later - first <= (begun[later] - at) * pool.per_s + 1e-6


@given(workloads(rates=(0.0, 3.0)))
@settings(max_examples=80, deadline=None)
def test_no_core_idles_while_action_may_begin(workload):
    pool, (least, _) = workload

    def work_conserving(pool):
        may_begin = any(pool.queues.values()) and pool.free_slots() and pool.rate.wait_s(pool.now) == 0.0
        assert not may_begin or pool.idle_cores() < least

    pool.run(after=work_conserving)


@given(workloads(lanes="a"))
@settings(max_examples=60, deadline=None)
def test_action_waits_only_behind_full_slots_or_cores(workload):
    """In one lane none overtakes. While it waits, either all slots are taken, or fewer cores idle than it needs."""
    pool, (least, _) = workload
    came = {number: at for at, _, number, _ in pool.events}
    pool.run()
    assert [start.choice.task.number for start in pool.started] == sorted(came)
    for number, start in enumerate(pool.started):
        parts_s = [
            (min(each.ends, start.at) - max(each.at, came[number]))
            * (1 / pool.capacity.slots + pool.widths[each.choice.task.number] / (pool.capacity.cores - least + 1))
            for each in pool.started[:number]
            if each.ends > came[number]
        ]
        assert start.at - came[number] <= sum(parts_s) + 1e-9


@given(st.integers(0, 10_000), curves)
@settings(max_examples=20, deadline=None)
def test_action_of_small_run_is_rarely_overtaken(seed, curve):
    draw = random.Random(seed)
    many = [Arrival(draw.uniform(0, 10), "many", action(number), 0.0) for number in range(60)]
    one = Arrival(5.0, "few", action(1000), 0.0)
    pool = SimulatedResource(
        Capacity(8, 4.0), {"many": 1.0, "few": 1.0}, [*many, one], lambda n, k: curve(k), learnt(curve, 1, 4, 8)
    )
    pool.run()
    numbers = [start.choice.task.number for start in pool.started if start.at >= 5.0]
    # Two runs of one weight: by fair shares it is the first or second, as a wide action costs up to twice as much.
    assert numbers.index(1000) <= 3


def mean_completion_s(pool):
    pool.run()
    return sum(start.ends for start in pool.started) / len(pool.started)


def best_mean_completion_s(count, total, least, most, seconds):
    """Of all widths and orders: each action begins as soon as its cores are free, none before one that is earlier."""
    best = inf
    for widths in product(range(least, most + 1), repeat=count):
        free, begins, ends_s = [0.0] * total, 0.0, 0.0
        for cores in widths:
            free.sort()
            begins = max(begins, free[cores - 1])
            free[:cores] = [begins + seconds(cores)] * cores
            ends_s += begins + seconds(cores)
        best = min(best, ends_s / count)
    return best


@st.composite
def batches(draw):
    total = draw(st.integers(1, 4))
    least = draw(st.integers(1, total))
    return draw(st.integers(1, 5)), total, least, draw(st.integers(least, total)), draw(curves)


@given(batches())
@settings(max_examples=60, deadline=None)
def test_mean_batch_completion_is_within_quarter_of_best(batch):
    count, total, least, most, seconds = batch
    arrivals = [Arrival(0.0, "run", action(number, least), 0.0) for number in range(count)]
    pool = SimulatedResource(
        Capacity(5, float(total)), {"run": 1.0}, arrivals, lambda n, k: seconds(k), learnt(seconds, least, most, 5)
    )
    assert mean_completion_s(pool) <= 1.25 * best_mean_completion_s(count, total, least, most, seconds) + 1e-9


def allen_cunneen_wait_s(servers, load, squared_variation):
    """The mean wait of M/G/c in mean service times (Allen 1990, "Probability, Statistics, and Queueing Theory"). It is
    Erlang's C formula over c (1 - load), times (1 + the squared coefficient of variation of a service) / 2."""
    offered = servers * load
    top = offered**servers / factorial(servers) / (1 - load)
    waits = top / (sum(offered**k / factorial(k) for k in range(servers)) + top)
    return waits / (servers * (1 - load)) * (1 + squared_variation) / 2


def poisson_arrivals(servers, number, sigma=0.8):
    """At load 0.7: times of arrival, and services from a lognormal distribution with mean 1."""
    draw = np.random.default_rng(1)
    services_s = np.exp(sigma * draw.standard_normal(number) - sigma**2 / 2)
    return np.cumsum(draw.exponential(1 / (0.7 * servers), number)).tolist(), services_s.tolist()


def waits_s(servers, arrivals, services_s):
    """Waits in a queue with so many servers without overtaking."""
    free, waits = [0.0] * servers, []
    for at, service_s in zip(arrivals, services_s, strict=True):
        begins = max(at, free[0])
        heapq.heapreplace(free, begins + service_s)
        waits.append(begins - at)
    return waits


@pytest.mark.parametrize("servers", [2, 9])
def test_queue_wait_at_slots_equals_theory(servers):
    """The dispatcher treats some actions like the queue, and the queue's mean over many equals theory."""
    arrivals, services_s = poisson_arrivals(servers, 400_000)
    waits = waits_s(servers, arrivals, services_s)
    assert np.mean(waits) == pytest.approx(allen_cunneen_wait_s(servers, 0.7, exp(0.8**2) - 1), rel=0.1)
    some = zip(range(1_000), arrivals, services_s, strict=False)
    need = {"slots": 1.0, "cores": 0.01}
    pool = SimulatedPool(
        Capacity(servers, 1e6),
        {"run": 1.0},
        [Arrival(at, "run", QueuedTask(number, "judge", 1.0, need, {}), service_s) for number, at, service_s in some],
    )
    pool.run()
    assert [start.choice.task.number for start in pool.started] == list(range(1_000))
    assert [start.at - at for start, at in zip(pool.started, arrivals, strict=False)] == pytest.approx(waits[:1_000])


def test_erlangs_formula_gives_the_known_waits():
    assert allen_cunneen_wait_s(1, 0.7, 1.0) == pytest.approx(0.7 / 0.3)  # M/M/1
    assert allen_cunneen_wait_s(1, 0.7, 0.0) == pytest.approx(0.7 / 0.6)  # M/D/1: half of it
    assert allen_cunneen_wait_s(2, 0.5, 1.0) == pytest.approx(1 / 3)  # M/M/2: rho^2 / (1 - rho^2)


def test_the_curve_is_that_of_the_measurements():
    for curve in (CoreCurve(0.25, 0.75, 4), CoreCurve(0.1, 0.9, 2), CoreCurve(1.0, 0.0, 1), CoreCurve(0.0, 2.0, 4)):
        speed_up = SpeedUp(1, 4)
        for cores in [1, 2, 3, 4] * 200:
            speed_up.add(cores, curve.seconds(cores))
        fitted = speed_up.curve
        for cores in range(1, 5):
            assert fitted.seconds(cores) == pytest.approx(curve.seconds(cores), rel=0.06)


def test_curve_is_least_squares_of_geometric_means():
    draw = random.Random(4)
    points = [(cores, (0.3 + 1.0 / cores) * draw.uniform(0.8, 1.25)) for cores in (1, 2, 4, 8) for _ in "abc"]
    speed_up = SpeedUp(1, 1000)  # so far away that the presumed values barely affect the fixed part
    for cores, seconds in points:
        speed_up.add(cores, seconds)
    ages = 0.998 ** np.arange(len(points) - 1.0, -1.0, -1.0)
    cores, seconds = (np.array(each) for each in zip(*points, strict=True))
    means = [np.exp(np.average(np.log(seconds[cores == k]), weights=ages[cores == k])) for k in (1, 2, 4, 8)]
    weights = [ages[cores == k].sum() for k in (1, 2, 4, 8)]
    x, y = [1, 1 / 2, 1 / 4, 1 / 8, 1 / 1000], [*means, means[0] / 1000]
    slope, intercept = np.polyfit(x, y, 1, w=np.sqrt([*weights, 4.0]))
    fitted = speed_up.curve
    assert fitted.parts == 1000 and intercept > 0
    assert (fitted.divided_s, fitted.fixed_s) == pytest.approx((slope, intercept))


def test_one_slow_action_does_not_hide_speed_up():
    elastic, wide = ElasticCores(1, 2, 9), 0
    elastic.add(1, 0.1)  # a small one
    elastic.add(2, 30.0)
    for now in range(0, 3_000, 3):
        (cores,) = elastic.begin(waiting=1, slots=9, total=2, busy=0, now=float(now))
        elastic.begin(waiting=0, slots=9, total=2, busy=0, now=now + 1.0)
        elastic.add(cores, 1 / cores)
        wide += cores == 2
    assert wide > 700


def test_unmeasured_actions_get_minimum_then_one_explores():
    elastic = ElasticCores(1, 4, 9)
    assert elastic.begin(waiting=1, slots=4, total=4, busy=0, now=0.0) == [1]
    elastic.add(1, 1.0)
    assert elastic.begin(waiting=1, slots=4, total=4, busy=0, now=1.0) == [4]


@pytest.mark.parametrize(
    ("curve", "most", "waiting", "total", "busy", "cores"),
    [
        (amdahl(1.0, 2), 4, 1, 4, 0, [2]),  # more make nothing faster
        # t(k) = .6 + .4 / k: k t(k) is 1.6 on two cores, 1.6 + .4 on... 2.2 on three: more than twice that of one.
        (amdahl(0.4, 9), 8, 1, 8, 0, [2]),
        # On four cores each, one after the other, they end after 1/4 and 2/4 s, and in the mean before 1/3 and 1/2 s.
        (amdahl(1.0, 4), 4, 2, 5, 0, [3, 2]),
        (amdahl(0.95, 4), 4, 1, 4, 0.4, [4]),  # a core that others keep a little busy counts as idle
        (amdahl(0.95, 4), 4, 1, 4, 0.6, [3]),
    ],
)
def test_actions_get_the_cores_that_are_worth_it(curve, most, waiting, total, busy, cores):
    assert learnt(curve, 1, most).begin(waiting=waiting, slots=9, total=total, busy=busy, now=0.0) == cores


def test_cores_that_make_nothing_faster_stay_idle():
    elastic = learnt(amdahl(0.0, 4), 1, 4)
    for now in range(30):
        elastic.begin(waiting=0, slots=4, total=4, busy=4, now=float(now))
    assert elastic.begin(waiting=1, slots=4, total=4, busy=0, now=30.0) == [1]


def test_loaded_machine_gives_minimum_and_idle_gives_width():
    speed_up = SpeedUp(1, 4)
    for cores in [1, 2, 3, 4] * 100:
        speed_up.add(cores, amdahl(0.97, 4)(cores))
    assert side_by_side(speed_up, 4, 9, Cores(4, 4, 0.0)) == [4]
    assert side_by_side(speed_up, 4, 9, Cores(4, 4, 0.9)) == [1, 1, 1, 1]
    assert side_by_side(speed_up, 40, 9, Cores(4, 4, 0.9)) == [1, 1, 1, 1]
    assert side_by_side(speed_up, 0, 9, Cores(4, 4, 0.0)) == []
    assert side_by_side(SpeedUp(6, 8), 1, 9, Cores(4, 4, 0.0)) == [6]  # alone, as there is no larger machine
    assert side_by_side(SpeedUp(6, 8), 1, 9, Cores(4, 3, 0.0)) == []


def test_cores_beyond_slots_are_parts_of_slots():
    elastic = learnt(amdahl(0.8, 8), 1, 8, slots=2)
    for now in range(100):
        elastic.begin(waiting=9, slots=0, total=6, busy=6, now=float(now))
    assert elastic.begin(waiting=9, slots=2, total=6, busy=0, now=100.0) == [3, 3]
    assert elastic.begin(waiting=9, slots=1, total=6, busy=3, now=101.0) == [3]
    assert elastic.begin(waiting=9, slots=1, total=6, busy=4, now=102.0) == [2]  # others use the rest


def test_load_is_recently_busy_share_of_cores():
    load = Load()
    for now in range(1000):
        load.change(float(now), 0.25, call_s=1.0)
    assert load.share == pytest.approx(0.25, abs=1e-6)
    load.change(1000.0 + 30.0, 0.0, call_s=1.0)
    assert load.share == pytest.approx(0.25)
    load.change(1000.0 + 60.0, 0.0, call_s=1.0)
    assert load.share == pytest.approx(0.25 / np.e, rel=1e-6)  # thirty actions later


def test_beginnings_are_never_closer_than_the_rate_says():
    rate = RateLimit(4.0)
    assert rate.wait_s(10.0) == 0.0
    rate.begin(10.0)
    assert rate.wait_s(10.0) == 0.25 and rate.wait_s(10.1) == pytest.approx(0.15) and rate.wait_s(10.25) == 0.0
    rate.begin(20.0)  # unused rate is not saved up
    assert rate.wait_s(20.0) == 0.25


def test_without_a_rate_nothing_waits():
    rate = RateLimit(0.0)
    rate.begin(10.0)
    assert rate.wait_s(10.0) == 0.0
