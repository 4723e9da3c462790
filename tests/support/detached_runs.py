"""A detached run without a cloud: ports in memory, real functions, and a queue that can drop or repeat events.

Every write and every event of any function has a number, in the order of time. `World.run` can kill a function right
after (or right before) any of them, drop an event, or deliver all events twice.
"""

from collections import Counter, deque

import msgspec
from driver import few_steps
from simulated import Lines, MemoryLedger, MemoryStorage

from marless.coordinator.config.loading import load
from marless.coordinator.core import budget
from marless.coordinator.core.state import Plan
from marless.coordinator.drive.completion_reports import Detached
from marless.coordinator.drive.detached_turn import CloudPorts, take_turn
from marless.coordinator.drive.ports import Ports
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import load_prices
from marless.functions import codec
from marless.functions.actor.handler import handle as act
from marless.functions.completion import completion_report, report_completion
from marless.functions.errors import StaleVersion
from marless.functions.evaluator.handler import handle as evaluate
from marless.functions.learner.handler import handle as learn
from marless.functions.messages.exchange import Answer, Request
from marless.functions.messages.message import Record
from marless.functions.storage_port import ObjectHead
from marless.reports.weights import weights_sha256

HANDLES = {"actor": act, "learner": learn, "evaluator": evaluate}
SMALL = (
    "task.name=toy/signal",
    "algorithm.hidden=[4]",
    "actors.num_envs=4",
    "actors.rollouts=3",
    "evaluation.every=1",  # so that learners and an evaluation are awaited apart
    "evaluation.episodes=2",
    "evaluation.final_episodes=2",
    "stop.rounds=2",
)
WAKE = "wake"


class Death(BaseException):
    """The running function is killed."""


class World:
    """Storage, ledger, completion sets, events and time of one run. `now` moves on only while nothing happens."""

    def __init__(self, *overrides, width=100, twice=False):
        self.plan = Plan(
            "r",
            load(None, few_steps([*SMALL, *overrides])),
            "code",
            load_prices(),
            Platform(
                concurrency=width, init_limit_ms=10_000, can_inline=False, coordinator_mb=512, grace_s=30.0
            ).on_lambda("emulated"),
        )
        self.storage, self.ledger, self.journal = Storage(self), Ledger(self), Lines()
        self.sets, self.events, self.now, self.twice = {}, deque(), 0.0, twice
        self.written, self.deadly, self.dropped, self.deaths = 0, None, None, 0
        self.served = Counter()
        self.state, self.resume, self.dispatching, self.sender = None, None, True, Sender

    def happen(self, effect):
        """One write or event. A death comes before it has an effect (`-n`) or after it (`n`)."""
        self.written += 1
        if self.deadly == -self.written:
            raise Death
        result = effect()
        if self.deadly == self.written:
            raise Death
        return result

    def run(self, deadly=None, dropped=None, most=2000):
        """Delivers events until the run has ended. When none are left, time advances and the sweep runs."""
        self.deadly, self.dropped = deadly, dropped
        self.events.append(WAKE)
        for _ in range(most):
            if self.state is not None and self.state.status != "running":
                return self
            if not self.events:
                self.now += 2000.0
                self.events.append(WAKE)
            self.deliver(self.events.popleft())
        raise AssertionError("the run did not end")

    def send(self, event):
        def append():
            if self.dropped == self.written:
                return
            self.events.extend([event] * (2 if self.twice else 1))

        self.happen(append)

    def deliver(self, event):
        try:
            self.coordinate() if event == WAKE else self.work(*event)
        except Death:
            self.deaths += 1
        except StaleVersion:
            pass

    def coordinate(self):
        """One turn of a coordinator that is new: it knows the run from its stored state alone."""
        sender = self.sender(self)
        ports = Ports(self.storage, self.ledger, sender, self.journal)
        cloud = CloudPorts(self, self.heads, sender, lambda: self.now)
        unbilled_ms = iter([(1.0, 0.0)])
        detached = Detached("coordinator:1", lambda: next(unbilled_ms, (0.0, 0.0)))
        self.state = take_turn(
            self.plan, ports, cloud, detached, dispatching=self.dispatching, resume=self.resume
        ).after

    def work(self, function, body):
        request = msgspec.json.decode(body, type=Request)
        self.served[request.address.id, request.attempt] += 1
        answer = msgspec.json.decode(HANDLES[function](body, self.storage), type=Answer)
        if report_completion(self, request.report_to, completion_report(answer, 1.0, 0.0, 1.0)):
            self.send(WAKE)

    def add(self, name, member):
        def put():
            self.sets[name] = self.sets.get(name, frozenset()) | {member}
            return self.sets[name]

        return self.happen(put)

    def read(self, names):
        return [self.sets.get(name, frozenset()) for name in names]

    def heads(self, keys):
        bodies = [dict.get(self.storage.dict, key) for key in keys]
        return [
            ObjectHead(body, codec.reference(key, body).sha256, len(body)) if body is not None else None
            for key, body in zip(keys, bodies, strict=True)
        ]

    @property
    def weights(self):
        return weights_sha256(self.state, self.storage)

    @property
    def dollars(self):
        return budget.dollars(self.plan, self.state.meter)


class Storage:
    """Objects in memory. Every put is an event of the world."""

    def __init__(self, world):
        self.world, self.dict = world, MemoryStorage()

    def put(self, key, body):
        self.world.happen(lambda: self.dict.put(key, body))

    def delete(self, names):
        self.world.happen(lambda: self.dict.delete(names))

    def __getattr__(self, name):
        return getattr(self.dict, name)


class Ledger(MemoryLedger):
    """Items in memory. Every commit is an event of the world, with its time."""

    def __init__(self, world):
        self.world = world

    def commit(self, item, body, version):
        def put():
            after = MemoryLedger.commit(self, item, body, version)
            self[item] = Record(version=after, body=body, at=self.world.now)
            return after

        return self.world.happen(put)


class Sender:
    def __init__(self, world):
        self.world, self.queue = world, []

    def invoke(self, attempt):
        self.queue.append((attempt.function, attempt.body()))

    def flush(self, patience_s):
        for event in self.queue:
            self.world.send(event)
        self.queue.clear()
        return []

    def wait(self, timeout_s):
        return []

    def close(self):
        self.queue.clear()
