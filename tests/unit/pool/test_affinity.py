"""Agents of very different load, whose state takes a second to load: where their tasks should run."""

import random
from dataclasses import replace
from statistics import fmean

import pytest
from simulated_pool import Arrival, SimulatedPool

from infra.local import dispatch
from infra.local.dispatch import Capacity, choose
from tests.unit.pool.test_dispatch import SECOND, task

AGENTS, SLOTS, TASKS = 12, 6, 600


def zipf_arrivals(seed):
    """Tasks of 0.2 s that come at 60 % of what six workers can serve; agent k's share is as 1 / k."""
    draw = random.Random(seed)
    agents = draw.choices(range(AGENTS), [1 / (k + 1) for k in range(AGENTS)], k=TASKS)
    at = 0.0
    arrivals = []
    for number, agent in enumerate(agents):
        at += draw.expovariate(0.6 * SLOTS / 0.2)
        arrivals.append(Arrival(at, "run", task(number, 0.2, reads={f"state {agent}": SECOND}), 0.2))
    return arrivals


def blind(shares, queues, *rest):
    """One queue: the worker that has been idle longest, whatever it holds."""
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
            return dispatch.Choice("run", mine[0], k)
    return None


def mean_seconds(arrivals, choosing):
    """From arrival to end, on workers whose caches hold the states of four agents."""
    pool = SimulatedPool(Capacity(SLOTS, SLOTS), {"run": 1.0}, arrivals, cache=4, choosing=choosing)
    pool.run()
    came = {arrival.task.number: arrival.at for arrival in arrivals}
    return fmean(start.ends - came[start.choice.task.number] for start in pool.started)


@pytest.mark.parametrize("seed", range(5))
def test_affinity_beats_one_queue_and_a_worker_for_each_agent(seed):
    arrivals = zipf_arrivals(seed)
    affinity, queue, own = (mean_seconds(arrivals, choosing) for choosing in (choose, blind, own_slot))
    assert affinity < 0.5 * min(queue, own)
