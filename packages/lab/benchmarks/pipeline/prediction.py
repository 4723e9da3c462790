"""The duration of a round by the durations of its tasks alone, on a virtual clock, without random numbers.

Start-ups, hand-overs and the coordinator are left out.
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace

Times = Sequence[float]


def ends_s(tasks_s: Times, slots: int, ready_s: Times | None = None) -> list[float]:
    """Return the end of each task: in the order of their `ready_s`, each on the slot that is free first."""
    free, ready = [0.0] * slots, ready_s or [0.0] * len(tasks_s)
    heapify(free)
    ends = [0.0] * len(tasks_s)
    for number in sorted(range(len(tasks_s)), key=ready.__getitem__):
        ends[number] = max(free[0], ready[number]) + tasks_s[number]
        heapreplace(free, ends[number])
    return ends


def in_turn_s(samples_s: Times, learners_s: Times, slots: int) -> float:
    """Sampling, then learners, on the same slots."""
    return max(ends_s(samples_s, slots)) + max(ends_s(learners_s, slots))


def beside_s(samples_s: Times, learners_s: Times, slots: int) -> float:
    """Sampling and learners that do not wait for it, the longest first, on the same slots."""
    return max(ends_s(sorted([*samples_s, *learners_s], reverse=True), slots))


def after_samples_s(samples_s: Times, evaluations_s: Times, learners_s: Times, slots: int) -> float:
    """Learners that wait for samples alone, at the same time as evaluations, on the same slots."""
    begins = [*(0.0 for _ in (*samples_s, *evaluations_s)), *(max(ends_s(samples_s, slots)) for _ in learners_s)]
    return max(ends_s([*samples_s, *evaluations_s, *learners_s], slots, begins))


def whole_s(samples_s: Times, learner_s: float, slots: int) -> float:
    """Sampling, then one learner."""
    return max(ends_s(samples_s, slots)) + learner_s


def behind_s(samples_s: Times, parts_s: Times, rest_s: float, slots: int, learners: int) -> float:
    """Sampling, then the parts on so many slots that learn, then their fold."""
    return max(ends_s(samples_s, slots)) + max(ends_s(parts_s, learners)) + rest_s


def streamed_s(samples_s: Times, parts_s: Times, rest_s: float, slots: int, learners: int) -> float:
    """Each part begins when its samples, consecutive ones, have ended, on other slots than sampling."""
    ends, size = ends_s(samples_s, slots), len(samples_s) // len(parts_s)
    ready = [max(ends[number * size : (number + 1) * size]) for number in range(len(parts_s))]
    return max(ends_s(parts_s, learners, ready)) + rest_s
