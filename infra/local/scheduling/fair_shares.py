"""The share of each run in a pool of workers.

Runs share the pool by start-time fair queueing (Goyal, Vin & Cheng 1996, "Start-time Fair Queueing: A Scheduling
Algorithm for Integrated Services Packet Switching Networks"). A task starts at S = max(V, F), and its lane's next
starts at F = S + cost / weight. The smallest S is served first. The cost is the task's expected seconds times its
dominant share of the machine: the largest part that it takes of any resource. Sources: Ghodsi et al., "Dominant
Resource Fairness: Fair Allocation of Multiple Resource Types", NSDI 2011, and "Multi-Resource Fair Queueing for Packet
Processing", SIGCOMM 2012.

Fairness. Let the queues of two lanes a and b hold tasks, while no task waits for a resource, and let c be the largest
cost of a lane's task. Then the expected costs that they have started differ by `|started_a / w_a - started_b / w_b| <=
c_a / w_a + c_b / w_b`, for any number of workers. Proof: a lane has started w times the way of its start tag. Starting
a only while S_a <= S_b keeps -c_b / w_b <= S_a - S_b <= c_a / w_a. (The costs that have *ended* may differ by the
running tasks, one for each worker.) If tasks wait for a resource the bound is twice as large. A prediction that was
wrong by e moves its lane's F by e / w when the task ends, and the next tasks make up for it. A lane that waits for data
is overtaken meanwhile, keeps its claim and catches up.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class _Lane:
    weight: float
    virtual: float
    """The virtual time when its queue last stopped being empty."""
    finish: float


class FairShares:
    """The virtual time, and each lane's claim on it, in seconds of the whole machine per unit of weight."""

    def __init__(self) -> None:
        self._virtual = 0.0
        self._lanes: dict[str, _Lane] = {}

    def open(self, lane: str, weight: float) -> None:
        """A lane with an empty queue. `weight` is above 0. It claims nothing for the time before."""
        self._lanes[lane] = _Lane(weight, self._virtual, self._virtual)

    def weigh(self, lane: str, weight: float) -> None:
        """Changes the lane's weight, which is above 0, for tasks that start from now on."""
        self._lanes[lane].weight = weight

    def close(self, lane: str) -> None:
        """Forgets the lane. Its running tasks may end later."""
        del self._lanes[lane]

    def waits(self, lane: str) -> None:
        """A task arrives in the lane's empty queue. Its start tag is fixed from here on."""
        self._lanes[lane].virtual = self._virtual

    def start_tag(self, lane: str) -> float:
        """S of the lane's next task."""
        return max(self._lanes[lane].virtual, self._lanes[lane].finish)

    def finish_tag(self, lane: str, share_s: float) -> float:
        """F of the lane's next task if it costs `share_s`."""
        return self.start_tag(lane) + share_s / self._lanes[lane].weight

    def started(self, lane: str, share_s: float) -> None:
        """A task of the lane that is expected to cost `share_s` begins: `expected_s` times `dominant_share`."""
        self._virtual = max(self._virtual, self.start_tag(lane))
        self._lanes[lane].finish = self.finish_tag(lane, share_s)

    def correct(self, lane: str, correction_s: float) -> None:
        """A task of the lane has cost so much more than was expected (negative: less). A closed lane is ignored."""
        if lane in self._lanes:
            self._lanes[lane].finish += correction_s / self._lanes[lane].weight
