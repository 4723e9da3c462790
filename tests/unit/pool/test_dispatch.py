"""The dispatcher in simulated time: capacity, fairness, starvation, makespan, and the worker that is taken."""

import itertools
import random
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_pool import Arrival, SimulatedPool

from marless.infra.local import dispatch
from marless.infra.local.dispatch import Capacity, QueuedTask, WorkerSlot, choose, dominant_share
from marless.infra.local.scheduling.fair_shares import FairShares

SECOND = round(1 / dispatch.LOAD_S_PER_BYTE)
"""Bytes that take a second to load."""


def task(number, expected_s=1.0, cores=1.0, reads=None, module="learner", group="", apart=False, **needs):
    return QueuedTask(number, module, expected_s, {"slots": 1.0, "cores": cores, **needs}, reads or {}, group, apart)


def slot(number, holds=(), modules=(), idle_since=0.0, free_at=0.0):
    return WorkerSlot(number, frozenset(modules), False, frozenset(holds), idle_since, free_at)


def chosen(queue, slots, *, capacity=None, busy_cores=0.0, now=10.0, **in_use):
    shares = FairShares()
    shares.open("run", 1.0)
    return choose(
        shares, {"run": queue}, slots, {"cores": busy_cores, **in_use}, capacity or Capacity(len(slots), 100.0), now
    )


@st.composite
def workloads(draw, lanes="abc", cores=(0.01, 0.5, 1.0, 2.0, 3.0, 9.0), spread=20.0, reads=(0,)):
    """A machine, weights of lanes, and arrivals of tasks that take another time than was expected."""
    capacity = Capacity(draw(st.integers(1, 5)), draw(st.sampled_from([1.0, 2.0, 4.0])))
    weights = {lane: draw(st.sampled_from([0.5, 1.0, 3.0])) for lane in lanes}
    arrivals = []
    for number in range(draw(st.integers(1, 40))):
        size = draw(st.sampled_from(reads))
        arrivals.append(
            Arrival(
                draw(st.floats(0, spread)),
                draw(st.sampled_from(lanes)),
                task(
                    number,
                    draw(st.floats(0.05, 5)),
                    draw(st.sampled_from(cores)),
                    {f"state {draw(st.integers(0, 3))}": size} if size else {},
                ),
                draw(st.floats(0.05, 5)),
            )
        )
    return capacity, weights, arrivals


def within_capacity(pool):
    busy = [worker.task for worker in pool.workers if worker.task]
    assert len(pool.workers) <= pool.capacity.slots
    assert len(busy) <= 1 or pool.in_use()["cores"] <= pool.capacity.cores + 1e-6


@given(workloads(reads=(0, SECOND, 5 * SECOND)))
@settings(max_examples=100, deadline=None)
def test_machine_is_never_overcommitted_and_serves_tasks_once(workload):
    capacity, weights, arrivals = workload
    pool = SimulatedPool(capacity, weights, arrivals, cache=2, correct=True)
    pool.run(after=within_capacity)
    assert sorted(start.choice.task.number for start in pool.started) == [a.task.number for a in arrivals]


@given(workloads(cores=(0.01, 0.5, 1.0)))
@settings(max_examples=70, deadline=None)
def test_nothing_idles_while_task_fits(workload):
    def work_conserving(pool):
        waiting = [task for queue in pool.queues.values() for task in queue]
        free = len(pool.workers) < pool.capacity.slots or any(worker.task is None for worker in pool.workers)
        smallest = min((task.need["cores"] for task in waiting), default=inf)
        largest = max((task.need["cores"] for task in waiting), default=inf)
        fits = pool.in_use()["cores"] + smallest <= pool.capacity.cores
        # Cores are kept for a task only while it does not fit itself.
        assert not (waiting and free and fits) or pool.in_use()["cores"] + largest > pool.capacity.cores

    pool = SimulatedPool(*workload)
    pool.run(after=work_conserving)


@given(workloads(reads=(0, SECOND)))
@settings(max_examples=70, deadline=None)
def test_something_is_always_started_on_an_idle_machine(workload):
    def never_idle(pool):
        assert any(worker.task for worker in pool.workers) or not any(pool.queues.values())

    SimulatedPool(*workload, cache=1).run(after=never_idle)


@given(workloads(lanes="ab", spread=0.0, cores=(0.01, 0.5, 1.0)), st.booleans())
@settings(max_examples=100, deadline=None)
def test_two_busy_lanes_get_weighted_shares(workload, large):
    capacity, weights, arrivals = workload
    if large:  # tasks wait for cores: the bound is twice as wide
        arrivals.append(Arrival(0.0, "a", task(100, 4.0, 4.0), 4.0))
    pool = SimulatedPool(capacity, weights, arrivals)
    pool.run()
    costs = {
        lane: [dominant_share(a.task, capacity) * a.task.expected_s / weights[lane] for a in arrivals if a.lane == lane]
        for lane in weights
    }
    bound = sum(max(cost, default=0.0) for cost in costs.values())
    waits = large or any(a.task.need["cores"] > capacity.cores / capacity.slots for a in arrivals)
    # A lane of nearly idle tasks continues while the other waits for cores.
    sleeping = sum(
        dominant_share(a.task, capacity) * a.task.expected_s / weights[a.lane]
        for a in arrivals
        if a.task.need["cores"] == 0.01
    )
    served = dict.fromkeys(weights, 0.0)
    history = [dict(served)]
    for start in pool.started:
        if set(start.tags) != set(weights):
            break
        lane, chosen_task, _ = start.choice
        served[lane] += dominant_share(chosen_task, capacity) * chosen_task.expected_s / weights[lane]
        history.append(dict(served))
    for one, other in itertools.combinations(history, 2):  # over every interval with work for both
        lag = (other["a"] - one["a"]) - (other["b"] - one["b"])
        assert abs(lag) <= (2 * bound + sleeping if waits else bound) + 1e-9


@pytest.mark.parametrize("others", [1, 5])
def test_whole_machine_task_is_not_starved(others):
    small = [
        Arrival(0.1 * n, f"small {n % others}", task(n, 1.0 + 0.01 * (n % 7)), 1.0 + 0.01 * (n % 7)) for n in range(400)
    ]
    large = Arrival(2.0, "large", task(1000, 1.0, 4.0), 1.0)
    weights = {f"small {n}": 1.0 for n in range(others)} | {"large": 1.0}
    pool = SimulatedPool(Capacity(8, 4.0), weights, [*small, large])
    pool.run()
    began = next(start.at for start in pool.started if start.choice.task.number == 1000)
    # Its own cost is a machine-second: each other lane may get as much and a task, then the machine drains.
    assert began <= 2.0 + others * (1.0 + 1.07) + 2 * 1.07


@pytest.mark.slow
@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_large_task_waits_only_for_claims_of_others(seed):
    draw = random.Random(seed)
    cores, lanes = 4.0, draw.randint(1, 4)
    arrivals = []
    for n in range(600):
        seconds = draw.uniform(0.2, 1.0)
        small = task(n, seconds, draw.choice([0.5, 1.0, 2.0]))
        arrivals.append(Arrival(draw.uniform(0, 60), f"small {draw.randrange(lanes)}", small, seconds))
    arrivals.append(Arrival(20.0, "large", task(1000, 2.0, draw.choice([4.0, 6.0])), 2.0))
    weights = {f"small {n}": 1.0 for n in range(lanes)} | {"large": 1.0}
    pool = SimulatedPool(Capacity(8, cores), weights, arrivals)
    pool.run()
    began = next(start.at for start in pool.started if start.choice.task.number == 1000)
    overtaking = [
        s for s in pool.started if 20.0 <= s.at < began and s.choice.lane != "large" and s.choice.task.number != 1000
    ]
    share_s = sum(dominant_share(s.choice.task, pool.capacity) * s.choice.task.expected_s for s in overtaking)
    # Each lane: from V - c to the finish tag of the large task, at 2 machine-seconds, and one task beyond it.
    assert share_s <= lanes * (2.0 + 2 * 1.0)


@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=2), st.sampled_from([1.0, 1.5, 1.9]))
@settings(max_examples=20, deadline=None)
def test_sleeping_tasks_do_not_delay_task_awaiting_cores(computing, cores):
    slots = 8
    sleepers = [Arrival(0.01, "sleeping", task(n, 0.5, (2.0 - cores) / slots), 0.5) for n in range(200)]
    others = [Arrival(0.0, "computing", task(1000 + n, s), s) for n, s in enumerate(computing)]
    large = Arrival(0.02, "large", task(2000, 5.0, cores), 5.0)
    pool = SimulatedPool(
        Capacity(slots, 2.0), {"sleeping": 1.0, "computing": 1.0, "large": 1.0}, [*sleepers, *others, large]
    )

    def no_slot_idles_while_a_sleeping_task_fits(pool):
        busy = sum(worker.task is not None for worker in pool.workers)
        fits = pool.in_use()["cores"] + (2.0 - cores) / slots <= 2.0
        assert not (pool.queues["sleeping"] and busy < slots and fits)

    pool.run(after=no_slot_idles_while_a_sleeping_task_fits)
    began = next(start.at for start in pool.started if start.choice.task.number == 2000)
    # It has the first claim, so it begins when the tasks that compute now have ended, and a slot is free.
    assert began <= max(computing) + 0.5 + 1e-9


def makespan(seconds, slots):
    arrivals = [Arrival(0.0, "run", task(n, s), s) for n, s in enumerate(seconds)]
    return SimulatedPool(Capacity(slots, 100.0), {"run": 1.0}, arrivals).run()


def best_makespan(seconds, slots):
    best = inf
    for places in itertools.product(range(slots), repeat=len(seconds)):
        loads = [0.0] * slots
        for place, s in zip(places, seconds, strict=True):
            loads[place] += s
        best = min(best, max(loads))
    return best


@given(st.lists(st.integers(1, 20), min_size=1, max_size=8), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_longest_first_ends_within_four_thirds_of_best(seconds, slots):
    limit = (4 / 3 - 1 / (3 * slots)) * best_makespan(seconds, slots)  # Graham 1969
    assert makespan(seconds, slots) <= limit + 1e-9


def test_the_bound_of_the_longest_first_is_reached():
    assert makespan([5, 5, 4, 4, 3, 3, 3], 3) == 11  # Graham's example for three machines, where the best is 9


def test_worker_choice_prefers_data_then_module_then_idle():
    read = task(1, reads={"state": 100, "policy": 10})
    some = slot(0, holds=["policy"], modules=["learner"])
    most, module, old = slot(1, holds=["state"]), slot(2, modules=["learner"], idle_since=5.0), slot(3, idle_since=1.0)
    older = slot(4, idle_since=0.5)
    assert chosen([read], [some, most, module, old]).slot == 1
    assert chosen([read], [module, old], capacity=Capacity(9, 9.0)).slot == 2
    assert chosen([read], [old, older], capacity=Capacity(9, 9.0)).slot == 4
    importing = replace(old, importing=True, modules={"actor"})
    assert chosen([read], [importing], capacity=Capacity(9, 9.0)).slot is None
    assert chosen([read], [importing], capacity=Capacity(1, 1.0)).slot == 3
    assert chosen([read], [old, older]).slot == 4
    assert chosen([read], [], capacity=Capacity(1, 1.0)).slot is None


def test_gpu_worker_comes_first_only_for_gpu_tasks():
    """To begin on a GPU takes longer than to load data."""
    data, begun = slot(0, holds=["state"], modules=["learner"]), slot(1, modules=["learner", "gpus"], idle_since=5.0)
    capacity = Capacity(9, 9.0, others={"gpus": 1.0})
    assert chosen([task(1, reads={"state": 100}, gpus=1.0)], [data, begun], capacity=capacity).slot == 1
    assert chosen([task(1, reads={"state": 100})], [data, begun], capacity=capacity).slot == 0


def test_worker_of_task_group_serves_no_other():
    own, later, common = (
        replace(slot(number, idle_since=1.0 + number), serves=serves)
        for number, serves in enumerate([("run", "plays"), ("run", "plays"), None])
    )
    roomy = Capacity(9, 9.0)
    for apart, slots, number in [
        (True, [own, later, common], 1),
        (False, [own, later, common], 1),
        (False, [common], 2),
        (True, [common], None),
    ]:
        assert chosen([task(1, group="plays", apart=apart)], slots, capacity=roomy).slot == number
    assert chosen([task(1, group="learner")], [own, later, common], capacity=roomy).slot == 2
    assert chosen([task(1, group="learner")], [own, later], capacity=roomy).slot is None


def test_task_waits_for_data_only_if_sooner():
    heavy = task(1, reads={"state": SECOND})

    def slots(free_at):
        return [slot(0, holds=["state"], idle_since=None, free_at=free_at), slot(1)]

    assert chosen([heavy], slots(10.9), now=10.0) is None
    assert chosen([heavy], slots(11.1), now=10.0).slot == 1
    assert chosen([heavy], slots(10.9), now=11.8) is None  # overdue by 0.9 s: as much again is expected
    assert chosen([heavy], slots(10.9), now=12.0).slot == 1


def test_other_task_takes_worker_while_first_awaits_data():
    heavy, light = task(1, 2.0, reads={"state": SECOND}), task(2, 1.0)
    slots = [slot(0, holds=["state"], idle_since=None, free_at=10.5), slot(1)]
    assert chosen([heavy, light], slots).task is light


def test_only_soon_served_tasks_wait_for_same_data():
    tasks = [task(n, 0.4, reads={"state": SECOND}) for n in range(10)]
    slots = [slot(0, holds=["state"], idle_since=None, free_at=10.3), slot(1)]
    assert chosen(tasks, slots) == ("run", tasks[2], 1)  # 0.3 s and 0.7 s are shorter than a second, 1.1 s is not


def test_task_that_wants_too_many_cores_runs_alone():
    assert chosen([task(1, cores=9.0)], [slot(0), slot(1)], capacity=Capacity(2, 4.0)).task.number == 1
    busy = [slot(0), slot(1, idle_since=None, free_at=11.0)]
    assert chosen([task(1, cores=9.0)], busy, busy_cores=0.01, capacity=Capacity(2, 4.0)) is None


def test_a_lane_without_work_saves_up_nothing():
    shares = FairShares()
    shares.open("idle", 1.0)
    shares.open("busy", 2.0)
    shares.waits("busy")
    for _ in range(10):
        shares.started("busy", 1.0)
    assert shares.start_tag("busy") == 5.0
    shares.waits("idle")
    assert shares.start_tag("idle") == 4.5  # where the newest task of the others began
    shares.started("idle", 1.0)
    shares.correct("idle", -0.25)
    assert shares.start_tag("idle") == 5.25
    shares.close("idle")
    shares.correct("idle", 1.0)


def test_task_beyond_machine_costs_whole_machine():
    assert dominant_share(task(1, cores=9.0), Capacity(8, 4.0)) == 1.0
    assert dominant_share(task(1, cores=1.0), Capacity(8, 4.0)) == 0.25
    assert dominant_share(task(1, cores=0.01), Capacity(8, 4.0)) == 0.125


def start_all(capacity, **lanes):
    """Return the number of running tasks of each lane when the machine is full. Each lane has ten equal 1 s tasks."""
    arrivals = [
        Arrival(0.0, lane, task(10 * number + n, **need), 1.0)
        for number, (lane, need) in enumerate(lanes.items())
        for n in range(10)
    ]
    pool = SimulatedPool(capacity, dict.fromkeys(lanes, 1.0), arrivals)
    pool.run()
    return [sum(start.at == 0.0 and start.choice.lane == lane for start in pool.started) for lane in lanes]


def test_runs_share_their_dominant_resources_equally():
    # Ghodsi et al. 2011, section 4.1: 9 processors and 18 GB. A needs (1, 4), B (3, 1). Both end with two thirds: A of
    # the memory with three tasks, B of the processors with two, and no processor is left.
    a, b = {"cores": 1.0, "memory_gb": 4.0}, {"cores": 3.0, "memory_gb": 1.0}
    assert start_all(Capacity(100, 9.0, others={"memory_gb": 18.0}), a=a, b=b) == [3, 2]
    # By cores alone A starts at tags 0, 1/9, 2/9, 3/9, B at 0 and 3/9. Of equal tags A comes first. Then B's second
    # does not fit, and A continues at 4/9 and 5/9, below the 6/9 where that would end.
    assert start_all(Capacity(100, 9.0), a={"cores": 1.0}, b={"cores": 3.0}) == [6, 1]


def test_task_starts_when_every_resource_is_free():
    capacity, busy = Capacity(4, 4.0, others={"gpus": 2.0}), [slot(0, idle_since=None, free_at=11.0), slot(1)]
    two, one = task(1, gpus=2.0), task(2, gpus=1.0)
    assert chosen([two, one], busy, capacity=capacity, busy_cores=1.0, gpus=1.0).task is one
    assert chosen([one], busy, capacity=capacity, busy_cores=3.5, gpus=1.0) is None
    assert dominant_share(one, capacity) == 0.5
    with pytest.raises(KeyError, match="tpus"):
        dominant_share(task(3, tpus=1.0), capacity)


def test_waiting_task_reserves_everything_it_needs():
    # The first in line needs both GPUs (one is in use) and two of four cores. Four slots of backfilled tasks must leave
    # it these: half a core each and no GPU.
    capacity = Capacity(4, 4.0, others={"gpus": 2.0})
    slots = [slot(0, idle_since=None, free_at=11.0), slot(1)]

    def second(behind):
        shares = FairShares()
        for lane in ("first", "second"):
            shares.open(lane, 1.0)
        shares.started("second", 10.0)  # far behind the finish tag of the first
        queues = {"first": [task(1, cores=2.0, gpus=2.0)], "second": [behind]}
        return choose(shares, queues, slots, {"cores": 0.0, "gpus": 1.0}, capacity, 10.0)

    assert second(task(2, cores=0.5)).task.number == 2
    assert second(task(2, cores=0.6)) is None
    assert second(task(2, cores=0.5, gpus=0.1)) is None


class Counted(list):
    seen = 0

    def __iter__(self):
        for item in super().__iter__():
            self.seen += 1
            yield item


def test_choice_cost_is_independent_of_queue_length():
    queue = Counted(task(n, cores=2.0) for n in range(10_000))
    slots = [slot(0), slot(1, idle_since=None, free_at=11.0)]
    assert chosen(queue, slots, busy_cores=1.0, capacity=Capacity(2, 2.0)) is None
    assert queue.seen <= dispatch.WINDOW + 1


def test_core_users_begin_before_longer_waiting_tasks():
    """Eight slots and one core: four learners of 1 s take 4 s of the core, while 16 tasks wait 2 s each."""
    waiting = [Arrival(0.0, "run", task(number, 2.0, 0.01), 2.0) for number in range(16)]
    learners = [Arrival(0.0, "run", task(16 + number, 1.0, 1.0), 1.0) for number in range(4)]
    pool = SimulatedPool(Capacity(8, 1.1), {"run": 1.0}, waiting + learners)
    pool.run()
    began = [start.at for start in pool.started if start.choice.task.number >= 16]
    assert began == pytest.approx([0.0, 1.0, 2.0, 3.0])
    assert max(start.ends for start in pool.started) < 7.0
