"""A detached run ends with the same bytes even if events or functions are lost."""

import functools
import math
from collections import deque
from dataclasses import replace

import msgspec
import pytest
from detached_runs import SMALL, WAKE, Death, Sender, World
from driver import train

from marless.coordinator.drive.completion_reports import open_asks
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ledger_items import load_state
from marless.coordinator.drive.ports import Ports
from marless.functions.completion import CompletionReport
from marless.functions.errors import StaleVersion
from marless.functions.messages.exchange import Request

PLACEMENTS = ("split", "fused", "packed", "whole")
REPLAYED = (
    "algorithm.name=vdn", "algorithm.buffer_size=60", "algorithm.updates_per_round=2", "algorithm.batch_size=8",
    "actors.num_envs=2", "actors.rollouts=2", "algorithm.epsilon_steps=40", "placement.chain=2", "stop.rounds=4",
)  # fmt: skip
# A round of `summed` is summed micro-batch by micro-batch, and its tasks are awaited in many sets at once.
RUNS = {placement: (f"placement.rule={placement}",) for placement in PLACEMENTS} | {
    "summed": ("algorithm.epochs=1", "algorithm.num_minibatches=1", "pipeline.micro_batch=1", "placement.rule=packed"),
    "lag": ("pipeline.lag=2", "stop.rounds=4", "placement.rule=fused"),
    "replayed": (*REPLAYED, "placement.rule=packed"),
    "replayed whole": (*REPLAYED, "placement.rule=whole"),
}


@functools.cache
def undisturbed(run="fused"):
    return World(*RUNS[run]).run()


def same(world, expected):
    """The parts that must be equal: weights, final returns, and the rounds' metrics except time and cost."""
    assert world.state.status == "finished"
    assert world.weights == expected.weights
    assert world.state.final == expected.state.final
    assert world.state.absolute == expected.state.absolute
    assert world.state.past == expected.state.past
    lines, others = ([(line.return_mean, line.metrics) for line in run.journal] for run in (world, expected))
    assert lines == others
    assert [line.round for line in world.journal] == [*range(1, expected.state.round + 1)]


@pytest.mark.parametrize("run", RUNS)
def test_detached_run_has_weights_of_driven_run(run, tmp_path):
    driven = train(tmp_path / "run", [*SMALL, *RUNS[run]])
    assert undisturbed(run).weights == driven.sha256
    assert undisturbed(run).state.final == driven.state.final


def test_sums_of_a_detached_round_wait_for_nobody():
    # Time passes only if no function was woken.
    assert undisturbed("summed").now == 0.0
    works = [id.split("/", 2)[2] for id, _ in undisturbed("summed").served if id.split("/")[1] == "000001"]
    assert sorted(works) == [
        "evaluate/000",
        *(f"grad/{number:05d}/all" for number in range(3)),
        "learn/all",
        *(f"sample/{number:05d}-{number:05d}" for number in range(3)),
    ]


@pytest.mark.parametrize("placement", ["split", "packed"])
def test_learners_are_woken_during_an_evaluation(placement):
    world, order = World(f"placement.rule={placement}"), []
    deliver = world.deliver

    def evaluations_last(event):
        if event != WAKE and event[0] == "evaluator" and any(other != event for other in world.events):
            world.events.append(event)
            return
        deliver(event)
        order.extend(event[:1] if event != WAKE else ())

    world.deliver = evaluations_last
    same(world.run(), undisturbed())
    # The second round's evaluation was sent with its three samples, and is the first of the run's three evaluations.
    assert order[order.index("evaluator") - 1] == "learner"
    assert order.count("evaluator") == 3 and world.now == 0.0


def evaluations_late(world, seconds=0.0):
    """Evaluators answer when no other event is left. Every event takes so many seconds."""
    deliver = world.deliver

    def look(event):
        if event != WAKE and event[0] == "evaluator" and any(other != event for other in world.events):
            world.events.append(event)
            return
        world.now += seconds
        deliver(event)

    world.deliver = look
    return world


def test_idle_turn_counts_as_training_time():
    world = evaluations_late(World("placement.rule=split"), seconds=1.0)
    commits, commit = [], world.ledger.commit
    world.ledger.commit = lambda *item: (commits.append(world.now), commit(*item))[1]
    same(world.run(), undisturbed())
    # Training begins with the first commit, which sends the first task. The last commit ends it.
    assert world.state.seconds == max(commits) - min(commits)


def test_stopping_run_awaits_evaluation_without_new_learner():
    world = evaluations_late(World("placement.rule=split"))
    world.events.append(WAKE)
    while world.events:
        world.dispatching = world.state is None or not (world.state.round == 1 and world.state.slots)
        world.deliver(world.events.popleft())
    assert not world.state.waiting and {work.partition("/")[0] for work in world.state.slots} == {"sample", "evaluate"}
    world.dispatching, world.resume = True, world.ledger["state"].version
    same(world.run(), undisturbed())


def test_detached_run_is_billed_all_report_set_reads():
    world, sets, turns = World("placement.rule=packed"), [], []
    read, coordinate = world.read, world.coordinate
    world.read = lambda names: (sets.extend(names), read(names))[1]
    world.coordinate = lambda: (turns.append(world.now), coordinate())[1]
    world.run()
    # Every item of this small run has less than 4 KB, which is one read unit. Each turn but the first reads the state.
    assert world.state.meter.read_units == len(sets) + len(turns) - 1


class Overtaken(World):
    """Once, a turn found two asks complete. Just before it commits, a turn commits that found only the later ask."""

    def __init__(self, *overrides):
        super().__init__(*overrides)
        self.hidden, self.raced, self.turns = "", False, 0

    def coordinate(self):
        self.turns += 1
        super().coordinate()

    def read(self, names):
        return super().read([name for name in names if name.split("/")[0] != self.hidden] or ["none"])

    def happen(self, effect):
        state = load_state(self.ledger)
        asks = open_asks(state) if state else {}
        complete = [ask for ask, works in asks.items() if len(self.sets.get(f"{ask}/0/0", ())) == len(works)]
        if effect.__qualname__.startswith("Ledger") and len(complete) == 2 and not self.raced:
            self.raced = True
            self.hidden = min(complete, key=lambda ask: int(ask.split(".")[0]))
            self.coordinate()
            self.events = deque(event for event in self.events if event != WAKE)
            self.hidden = ""
        return super().happen(effect)


def test_overtaken_turn_receives_missing_reports():
    world = Overtaken("placement.rule=packed")
    deliver = world.deliver

    def evaluation_after_learner(event):
        round_learned = any("/000001/learn/" in id for id, _ in world.served)
        if event != WAKE and event[0] == "evaluator" and not round_learned and world.events:
            world.events.append(event)
        else:
            deliver(event)

    world.deliver = evaluation_after_learner
    same(world.run(), undisturbed())
    # Time passes only if no function was woken.
    assert world.raced and world.now == 0.0
    # All are billed, the overtaken one with the state that it read in vain and the write that was refused.
    assert world.state.meter.coordinator.invocations == world.turns


def test_just_resent_tasks_are_kept_when_sending_fails():
    world, flush = World("placement.rule=split", "attempts=9"), Sender.flush
    lost, refused = set(), []

    class Refusing(Sender):
        def flush(self, patience_s):
            """Loses the first samples and evaluation of the second round. Then the samples are refused once."""
            unsent = []
            for function, body in list(self.queue):
                request = msgspec.json.decode(body, type=Request)
                if request.address.round == 1 and function in ("actor", "evaluator"):
                    if request.attempt == 0 or (function == "actor" and request.attempt == 1):
                        self.queue.remove((function, body))
                        lost.add(function)
                    if function == "actor" and request.attempt == 1:
                        unsent.append((request.address.id, 1, "too many", False))
            refused.extend(unsent)
            flush(self, patience_s)
            return unsent

    world.sender = Refusing
    same(world.run(), undisturbed())
    assert lost == {"actor", "evaluator"} and refused
    assert world.state.meter.evaluator.attempts_lost == 1


def test_a_large_event_is_billed_as_several_requests():
    # Every request names its run and has an id that begins with it: more than 400 KB with this name.
    world, sent = World(), []
    world.plan, send = replace(world.plan, run="r" * 200_000), world.send
    world.send = lambda event: (sent.append(event), send(event))
    state = world.run().state
    sizes = [len(event[1]) for event in sent if event != WAKE]
    large = sum(math.ceil((size - 262_144) / 65_536) for size in sizes if size > 262_144)
    assert large > 0 and state.meter.extra_requests == large
    assert undisturbed().state.meter.extra_requests == 0


@pytest.mark.parametrize(
    ("run", "placement"), [("fused", "fused"), ("summed", "packed"), ("lag", "packed"), ("lag", "split")]
)
def test_every_event_twice_changes_nothing(run, placement):
    world = World(*RUNS[run], f"placement.rule={placement}", twice=True).run()
    same(world, undisturbed(run))
    assert max(world.served.values()) >= 2


# At every n-th write and event: some in the quick tests, all under conformance.
STRIDES = {"fused": 5, "whole": 5, "summed": 6, "replayed": 11, "replayed whole": 11}
EVERY = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.conformance)])


def events(run="fused", every=False):
    return range(1, undisturbed(run).written + 1, 1 if every else STRIDES.get(run, 17))


def some_slow(quick, slow):
    return pytest.mark.parametrize("run", [*quick, *(pytest.param(run, marks=pytest.mark.slow) for run in slow)])


@EVERY
@some_slow(["fused", "whole", "summed"], ["lag", "replayed", "replayed whole"])
@pytest.mark.parametrize("when", [1, -1], ids=["after", "before"])
def test_death_at_any_write_or_event_changes_nothing(run, every, when):
    for number in events(run, every):
        world = World(*RUNS[run]).run(deadly=when * number)
        same(world, undisturbed(run))
        assert world.deaths == 1


@EVERY
@some_slow(["fused"], ["summed", "lag"])
def test_any_event_may_be_dropped(run, every):
    dropped, numbers = 0, events(run, every)
    for number in numbers:
        world = World(*RUNS[run]).run(dropped=number)
        same(world, undisturbed(run))
        dropped += world.now > 0
    # Time passes only if no other wake made up for the lost one.
    assert dropped * numbers.step >= 5


class Spoilt(World):
    """Code in the tenant has written other values into every third set: a report fails, and the set reads as empty."""

    def add(self, name, member):
        if self.is_spoilt(name):
            raise Death
        return super().add(name, member)

    def read(self, names):
        return [
            frozenset() if self.is_spoilt(name) else found
            for name, found in zip(names, super().read(names), strict=True)
        ]

    def is_spoilt(self, name):
        return int(name.split(".")[0]) % 3 == 0


def test_spoilt_sets_delay_a_run_and_change_nothing():
    world = Spoilt("attempts=10").run()
    same(world, undisturbed())
    assert world.deaths > 2
    assert world.state.meter.actor.attempts_lost + world.state.meter.learner.attempts_lost > 0


def stopped():
    world = World()
    world.events.append(WAKE)
    while world.events:
        world.dispatching = world.state is None or world.state.round < 1
        world.deliver(world.events.popleft())
    assert world.state.status == "running" and not any(slot.waiting for slot in world.state.slots.values())
    world.dispatching = True
    return world


def test_stalled_run_is_resumed_by_any_wake_up():
    world = stopped()
    world.resume = world.ledger["state"].version
    same(world.run(), undisturbed())


def test_running_run_ignores_late_event():
    world = stopped()
    world.resume = world.ledger["state"].version
    world.deliver(WAKE)
    asked, version = world.served.copy(), world.ledger["state"].version
    for _ in range(3):
        world.deliver(WAKE)
    assert (world.served, world.ledger["state"].version) == (asked, version)
    same(world.run(), undisturbed())


def test_turn_of_ended_run_writes_nothing():
    world = World("placement.rule=whole")
    world.run()
    ended = dict(world.ledger)
    world.deliver(WAKE)
    assert dict(world.ledger) == ended


class Forged(World):
    """A run with a forged `member` first in every set of tasks."""

    def __init__(self, member):
        super().__init__()
        self.member = member

    def add(self, name, member):
        if "/0/" in name and self.member is not None:
            self.sets.setdefault(name, frozenset({self.member}))
        return super().add(name, member)


FORGERIES = {
    "no report": b"\x00garbage",
    "of another attempt": bytes([0]) + msgspec.msgpack.encode(CompletionReport(attempt=7, duration_ms=1)),
    "of no task": bytes([63]) + msgspec.msgpack.encode(CompletionReport(attempt=0, duration_ms=1)),
    "of a place beyond the set": bytes([200]) + msgspec.msgpack.encode(CompletionReport(attempt=0, duration_ms=1)),
    "of less than no time": bytes([0]) + msgspec.msgpack.encode([0, -5]),
    "of a crash": bytes([0]) + msgspec.msgpack.encode(CompletionReport(attempt=0, duration_ms=1, kind="crash")),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_unexpected_note_changes_no_result(forgery):
    same(Forged(FORGERIES[forgery]).run(), undisturbed())


def test_answer_of_doubled_event_wins_over_crash():
    world = Forged(FORGERIES["of a crash"]).run()
    assert {attempt for _, attempt in world.served} == {0}


def test_reported_object_that_vanished_is_made_again():
    world = World()
    world.events.append(WAKE)
    while not any("trajectory" in key for key in world.storage.dict):
        world.deliver(world.events.popleft())
    key = next(key for key in world.storage.dict if "trajectory" in key)
    del world.storage.dict[key]
    same(world.run(), undisturbed())


def test_sleeping_driver_deletes_nothing_of_later_driver():
    world = stopped()
    driver = Driver(world.plan, Ports(world.storage, Slept(world), Sender(world), world.journal), detached=None)
    before = dict(world.storage.dict)
    world.storage.dict["rounds/000009/sample/00000-00000.trajectory.safetensors"] = b"of an attempt in flight"
    with pytest.raises(StaleVersion):
        driver.begin()
    assert world.storage.dict.keys() > before.keys()


class Slept:
    """A ledger that takes the lease from its driver right after the driver's commit."""

    def __init__(self, world):
        self.ledger = world.ledger

    def commit(self, item, body, version):
        after = self.ledger.commit(item, body, version)
        self.ledger.commit(item, body, after)
        return after

    def __getattr__(self, name):
        return getattr(self.ledger, name)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_run_limited_to_few_functions_has_same_weights(placement):
    world, most = World(f"placement.rule={placement}"), 0
    platform = msgspec.structs.replace(world.plan.platform, concurrency=2, at_once=2)
    world.plan, deliver = replace(world.plan, platform=platform), world.deliver

    def look(event):
        nonlocal most
        deliver(event)
        most = max(most, sum(event != WAKE for event in world.events))

    world.deliver = look
    same(world.run(), undisturbed(placement))
    assert most <= 2


def test_run_limited_to_few_functions_survives_lost_events():
    for dropped in events():
        world = World()
        world.plan = replace(world.plan, platform=msgspec.structs.replace(world.plan.platform, at_once=1))
        same(world.run(dropped=dropped), undisturbed())
