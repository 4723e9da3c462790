"""The best place of tasks of agents with very different load, if a state takes a second to load."""

import random
from dataclasses import replace
from statistics import fmean

import pytest
from simulated_pool import Arrival, SimulatedPool

from marless.infra.local import dispatch
from marless.infra.local.dispatch import Capacity, WorkerSlot, choose
from marless.infra.local.scheduling.fair_shares import FairShares
from tests.unit.pool.test_dispatch import SECOND, task

AGENTS, SLOTS, TASKS = 12, 6, 600
SIX = Capacity(6, 100.0)


def zipf_arrivals(seed):
    """Tasks of 0.2 s that arrive at 60 % of the capacity of six workers. Agent k's share is as 1 / k."""
    draw = random.Random(seed)
    agents = draw.choices(range(AGENTS), [1 / (k + 1) for k in range(AGENTS)], k=TASKS)
    at = 0.0
    arrivals = []
    for number, agent in enumerate(agents):
        at += draw.expovariate(0.6 * SLOTS / 0.2)
        arrivals.append(Arrival(at, "run", task(number, 0.2, reads={f"state {agent}": SECOND}), 0.2))
    return arrivals


def blind(shares, queues, *rest):
    """One queue: the worker that has been idle longest, with any state."""
    unread = {lane: [replace(waiting, reads={}) for waiting in queue[:1]] for lane, queue in queues.items()}
    choice = choose(shares, unread, *rest)
    return choice and choice._replace(task=queues[choice.lane][0])


def own_slot(shares, queues, slots, *rest):
    """Agent k runs on worker k modulo the workers, and nowhere else."""
    if len(slots) < SLOTS:
        return choose(shares, queues, slots, *rest)
    by_slot = {k: [] for k in range(SLOTS)}
    for waiting in queues["run"]:
        by_slot[int(next(iter(waiting.reads)).split()[1]) % SLOTS].append(waiting)
    for k, mine in by_slot.items():
        if mine and slots[k].idle_since is not None:
            return dispatch.TaskChoice("run", mine[0], k)
    return None


def mean_seconds(arrivals, choosing):
    """From arrival to end, on workers that cache the states of four agents."""
    pool = SimulatedPool(Capacity(SLOTS, SLOTS), {"run": 1.0}, arrivals, cache=4, choosing=choosing)
    pool.run()
    came = {arrival.task.number: arrival.at for arrival in arrivals}
    return fmean(start.ends - came[start.choice.task.number] for start in pool.started)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_affinity_beats_one_queue_and_fixed_workers(seed):
    arrivals = zipf_arrivals(seed)
    affinity, queue, own = (mean_seconds(arrivals, choosing) for choosing in (choose, blind, own_slot))
    assert affinity < 0.5 * min(queue, own)


def test_worker_loads_data_that_most_tasks_want():
    """Six tasks want x, which three busy workers hold, four want y, which one holds: 1.5 and 2 for each that would."""
    queue = [task(number, 0.2, reads={"x" if number < 6 else "y": SECOND}) for number in range(10)]
    busy = [WorkerSlot(number, frozenset(), False, frozenset(holds), None, 99.0) for number, holds in enumerate("xxxy")]
    shares = FairShares()
    shares.open("run", 1.0)
    found = choose(
        shares,
        {"run": queue},
        [*busy, WorkerSlot(4, frozenset(), False, frozenset(), 0.0, 0.0)],
        {"cores": 4.0},
        SIX,
        10.0,
    )
    assert found is not None and found.task.number == 6
    # The queue may show a part of the tasks that read the same: x is wanted by 12 now, so 3 for each.
    counts = {"run": {frozenset("x"): 12, frozenset("y"): 4}}
    slots = [*busy, WorkerSlot(4, frozenset(), False, frozenset(), 0.0, 0.0)]
    found = choose(shares, {"run": queue}, slots, {"cores": 4.0}, SIX, 10.0, counts)
    assert found is not None and found.task.number == 0


def test_unequal_batch_ends_within_ten_loadings():
    """Work as 1, 1/2, ... Work as 1, 1/2, ... 1/6, 60 s in all, a second to load a state. Six loadings begin it. A
    sixth of the remaining work then costs at most four more."""
    work_s = [60 / sum(1 / k for k in range(1, 7)) / agent for agent in range(1, 7)]
    arrivals = [
        # The agent with the most tasks has slightly longer tasks, like measured durations.
        Arrival(0.0, "run", task(6 * number + agent, 0.25 - agent * 1e-4, reads={f"state {agent}": SECOND}), 0.25)
        for agent in range(6)
        for number in range(round(work_s[agent] / 0.25))
    ]
    assert SimulatedPool(Capacity(6, 6), {"run": 1.0}, arrivals).run() <= (60 + 10) / 6 + 1.25
