"""Six agents with work in the ratios 1, 1/2, ... 1/6 (Zipf), on six slots. Loading an agent's state takes a second."""

import tempfile
import time
from pathlib import Path

from benchmarks.table import Row
from marless.functions.messages.message import Ref
from marless.functions.messages.order import Address, Attempt, Order
from marless.infra.local.dispatch import Capacity
from marless.infra.local.lane import Lane
from marless.infra.local.task_pool import TaskPool

AGENTS, SLOTS, LOAD_S, TASK_S, TOTAL_S = 6, 6, 1.0, 0.25, 60.0
_BYTES = 1 << 20
_MODULES = {"learner": "benchmarks.pool.skewed_agent"}


def rows() -> list[Row]:
    """One slot for each agent, one queue without affinity, and the pool's dispatcher."""
    pooled = _makespan(range(AGENTS), SLOTS, affinity=True)
    queue = _makespan(range(AGENTS), SLOTS, affinity=False)
    # The agents do not touch each other, so the round lasts as long as the heaviest.
    own = _makespan([0], 1, affinity=True)
    name = "six agents, Zipf, on six slots"
    return [
        Row(f"{name}: speed", [pooled], ".1f", "s", [own / pooled], "a slot for each agent", least=1.21),
        Row(f"{name}: speed", [pooled], ".1f", "s", [queue / pooled], "one queue without affinity", least=1.3),
    ]


def _makespan(agents: range | list[int], slots: int, affinity: bool) -> float:
    """Seconds until all tasks of these agents have ended. Without affinity the pool ignores the data that tasks
    read."""
    capacity = Capacity(slots, slots, LOAD_S / _BYTES if affinity else 0.0)
    with tempfile.TemporaryDirectory() as folder, TaskPool(capacity, _MODULES, Path(folder)) as pool:
        lane = pool.lane("skewed", Path(folder))
        for repeat in range(2):  # so that no start-up is measured, and durations are known
            for agent in range(max(slots, len(agents))):
                lane.invoke(_attempt(f"skewed/{repeat}/{agent}", "warm", TASK_S, 0.0, known=False))
            _wait(lane, max(slots, len(agents)))
        began, count = time.monotonic(), 0
        share_s = TOTAL_S / sum(1 / (agent + 1) for agent in range(AGENTS))
        for number in range(round(share_s / TASK_S)):
            for agent in agents:
                if number < round(share_s / (agent + 1) / TASK_S):
                    id = f"skewed/{number}/{agent}"
                    lane.invoke(_attempt(id, f"agent-{agent}", TASK_S, LOAD_S, known=affinity))
                    count += 1
        _wait(lane, count)
        return time.monotonic() - began


def _wait(lane: Lane, count: int) -> None:
    done = 0
    while done < count:
        done += len(lane.wait(1.0))


class SkewedTask(Order, frozen=True, kw_only=True):
    """Load the agent's `state`, and work on it."""

    state: tuple[Ref, ...]
    work_s: float
    load_s: float

    def reads(self) -> tuple[Ref, ...]:
        """See `Order`."""
        return self.state


def _attempt(id: str, agent: str, work_s: float, load_s: float, known: bool) -> Attempt:
    state = (Ref(key=agent, sha256=agent, size=_BYTES if known else 0),)
    address = Address(id=id, run="skewed", round=0, output=id, seed=0)
    return Attempt("learner", SkewedTask(address=address, timeout_s=60.0, state=state, work_s=work_s, load_s=load_s))
