"""The governor of a study begins each run once and grants each dollar once, even after kills and overtaking turns."""

from collections import Counter, defaultdict
from contextlib import suppress
from types import SimpleNamespace

import msgspec
import pytest
from simulated import MemoryLedger

from marless.coordinator.config.loading import load
from marless.coordinator.core.state import State
from marless.coordinator.drive import lease, run_manifest
from marless.coordinator.drive.ledger_items import STATE, StateEncoder
from marless.coordinator.drive.run_manifest import STUDY, RunManifest
from marless.coordinator.drive.study_governor import begin, govern, limited, read_state, stop
from marless.coordinator.governor.study_state import StudyPlan
from marless.coordinator.platform import Platform
from marless.functions.errors import StaleVersion, StorageFault

CAP = 6.0
OWNERS = {f"s.r{index}": "ab"[index % 2] for index in range(6)}
PLAN = StudyPlan(
    study="s",
    tenant="default",
    file=msgspec.Raw(b"{}"),
    coordinator="coordinator:1",
    width=4,
    at_work=64,
    owners=OWNERS,
    weights={"a": 1.0, "b": 1.0},
    dollars=CAP,
    caps={},
)


class Death(BaseException):
    """The running governor is killed."""


class Ledger(MemoryLedger):
    """Items in memory. Every write is an event of the deployment."""

    def __init__(self, there):
        self.there = there

    def commit(self, item, body, version):
        return self.there.happen(lambda: MemoryLedger.commit(self, item, body, version))

    def remove(self, item):
        self.there.happen(lambda: self.pop(item, None))

    def items(self, prefix, after=""):
        return [(name, record.body) for name, record in sorted(MemoryLedger.items(self))]


class Deployment:
    """A tenant's ledgers. `before` is called before write number `at`. Then, with `deadly`, the writer dies."""

    def __init__(self):
        self.written, self.at, self.before, self.deadly = 0, None, lambda: None, False
        self.live = Ledger(self)
        self.ledgers = defaultdict(lambda: Ledger(self))
        self.woken = Counter()

    def happen(self, write):
        self.written += 1
        if self.written == self.at:
            self.before()
            if self.deadly:
                raise Death
        return write()

    def outside(self, run):
        return SimpleNamespace(ledger=self.ledgers[run])

    def wake(self, coordinator, run):
        assert coordinator == "coordinator:1"
        self.happen(lambda: self.woken.update([run]))

    def write_runs(self):
        for run in OWNERS:
            manifest = RunManifest(
                run=run,
                tenant="default",
                config=load(None, ["task.name=toy/signal"]),
                code="",
                identity=msgspec.Raw(b"{}"),
                functions={},
                platform=Platform(),
                study=f"{STUDY}s",
            )
            run_manifest.write(self.ledgers[run], manifest)

    def end(self, run, status="finished"):
        held, version = lease.read(self.ledgers[run])
        assert held.holder == lease.CLOUD
        state = State(status=status, reason="rounds" if status == "finished" else "it cannot be")
        with suppress(StaleVersion):  # an earlier turn was killed here
            self.ledgers[run].commit(STATE, StateEncoder(state).encode(state), 0)
        lease.write(self.ledgers[run], lease.Lease(), version)
        self.live.remove(run)

    def at_work(self):
        return [run for run in OWNERS if lease.read(self.ledgers[run])[0].holder == lease.CLOUD]

    def sweep(self):
        for name, _ in self.live.items(""):
            if name.startswith(STUDY):
                govern(self, name)
            else:
                self.unlist(name)

    def unlist(self, run):
        if lease.read(self.ledgers[run])[0].holder != lease.CLOUD:
            self.live.remove(run)

    def check(self):
        state = read_state(self, "s")
        grants = state.live.values() if state else []
        outcomes = state.over.values() if state else []
        assert sum(grant.width for grant in grants) <= 4
        dollars = sum(grant.dollars for grant in grants) + sum(outcome.dollars for outcome in outcomes)
        assert dollars <= CAP * (1 + 1e-9)
        assert len(self.at_work()) <= 4
        assert all(version <= 2 for _, version in (lease.read(self.ledgers[run]) for run in OWNERS))

    def finish(self):
        for _ in range(20):
            self.sweep()
            self.check()
            if working := self.at_work():
                assert set(working) <= {name for name, _ in self.live.items("")}
                self.end(working[0])
        assert {outcome.status for outcome in read_state(self, "s").over.values()} == {"finished"}
        assert len(read_state(self, "s").over) == len(OWNERS)
        assert not self.live.items("")


def begun():
    there = Deployment()
    there.write_runs()
    begin(there, PLAN)
    return there


def test_study_begins_as_many_runs_as_functions():
    there = begun()
    assert there.woken == {f"{STUDY}s": 1}
    govern(there, f"{STUDY}s")
    assert there.at_work() == ["s.r0", "s.r1", "s.r2", "s.r3"]
    there.end("s.r1")
    govern(there, f"{STUDY}s")
    assert there.at_work() == ["s.r0", "s.r2", "s.r3", "s.r5"]
    there.finish()
    assert all(there.woken[run] == 1 for run in OWNERS)


def test_failed_run_is_recorded_and_others_continue():
    there = begun()
    govern(there, f"{STUDY}s")
    there.end("s.r0", "failed")
    govern(there, f"{STUDY}s")
    outcome = read_state(there, "s").over["s.r0"]
    assert (outcome.status, outcome.reason) == ("failed", "it cannot be")
    assert len(there.at_work()) == 4


def test_a_run_that_somebody_stopped_is_over():
    there = begun()
    govern(there, f"{STUDY}s")
    there.end("s.r0", "running")
    govern(there, f"{STUDY}s")
    assert read_state(there, "s").over["s.r0"].status == "interrupted"


def test_stopped_study_begins_no_run_and_stops_others():
    there = begun()
    govern(there, f"{STUDY}s")
    stop(there, PLAN)
    govern(there, f"{STUDY}s")
    govern(there, f"{STUDY}s")
    assert all(there.woken[run] == 2 for run in there.at_work())  # to begin, and once to stop
    for run in there.at_work():
        assert lease.read(there.ledgers[run])[0].stop
        there.end(run, "running")
    there.sweep()
    state = read_state(there, "s")
    assert state.is_over(PLAN) and not there.live.items("")
    assert [outcome.status for outcome in state.over.values()] == ["interrupted"] * 4


def test_study_may_be_stopped_before_first_step():
    there = begun()
    stop(there, PLAN)
    govern(there, f"{STUDY}s")
    assert not there.live.items("") and not there.at_work()


@pytest.mark.parametrize("nth", range(1, 18))
def test_a_study_may_be_stopped_at_any_time(nth):
    there = begun()
    there.at, there.before = there.written + nth, lambda: stop(there, PLAN)
    govern(there, f"{STUDY}s")
    stop(there, PLAN)
    govern(there, f"{STUDY}s")
    for run in there.at_work():
        there.end(run, "running")
    there.sweep()
    assert not there.live.items("")


WRITES = range(1, 25)


@pytest.mark.parametrize("nth", WRITES)
def test_a_governor_may_be_killed_at_any_write(nth):
    there = begun()
    there.at, there.deadly = there.written + nth, True
    try:
        govern(there, f"{STUDY}s")
        there.end(there.at_work()[0])
        govern(there, f"{STUDY}s")
    except Death:
        pass
    there.at = None
    there.finish()


@pytest.mark.parametrize("nth", WRITES)
def test_a_second_governor_may_come_at_any_time(nth):
    there = begun()
    there.at, there.before = there.written + nth, lambda: govern(there, f"{STUDY}s")
    govern(there, f"{STUDY}s")
    there.check()
    there.end(there.at_work()[0])
    govern(there, f"{STUDY}s")
    there.finish()


@pytest.mark.parametrize("nth", WRITES)
def test_sweep_that_removes_idle_runs_loses_none(nth):
    there = begun()

    def sweep():
        for name, _ in there.live.items(""):
            if not name.startswith(STUDY):
                there.unlist(name)

    there.at, there.before = there.written + nth, sweep
    govern(there, f"{STUDY}s")
    there.finish()


@pytest.mark.parametrize("nth", range(1, 4))
def test_command_killed_while_starting_study_continues(nth):
    there = Deployment()
    there.write_runs()
    there.at, there.deadly = there.written + nth, True
    with pytest.raises(Death):
        begin(there, PLAN)
    there.at = None
    begin(there, PLAN)
    there.finish()


def test_repeatedly_overtaken_governor_leaves():
    there = begun()

    def overtaken(write):
        raise StaleVersion("state")

    there.happen = overtaken
    with pytest.raises(StaleVersion):
        govern(there, f"{STUDY}s")


def test_missing_study_is_removed_from_list():
    there = Deployment()
    there.live.commit(f"{STUDY}no", b"coordinator:1", 0)
    assert govern(there, f"{STUDY}no")["left"] == "nobody"
    assert not there.live.items("")


def test_events_that_cannot_be_sent_do_no_harm():
    there = begun()

    def wake(coordinator, run):
        raise StorageFault("no")

    there.wake = wake
    begin(there, PLAN)
    there.finish()


def test_run_keeps_to_grant_of_study():
    there = begun()
    govern(there, f"{STUDY}s")
    plan = run_manifest.read(there.ledgers["s.r0"]).plan()
    granted, read = limited(there, f"{STUDY}s", plan)
    assert (granted.platform.concurrency, granted.platform.at_once) == (1, 1)
    assert granted.config.stop.dollars == pytest.approx(1.0) and read == (len(there.ledgers[f"{STUDY}s"][STATE].body),)
    there.end("s.r0")
    govern(there, f"{STUDY}s")
    assert limited(there, f"{STUDY}s", plan)[0] == plan


def test_resumed_run_stays_in_study():
    there = begun()
    manifest = run_manifest.read(there.ledgers["s.r0"])
    run_manifest.write(there.ledgers["s.r0"], msgspec.structs.replace(manifest, study=""))
    assert run_manifest.read(there.ledgers["s.r0"]).study == f"{STUDY}s"
