"""The usage of a detached run's turn is on the bill, even if another turn overtakes it.

Units are counted where requests are made, by DynamoDB's developer guide: a refused write is billed by the item that
stands.
"""

from collections import Counter
from math import ceil

import msgspec
import pytest
from detached_runs import WAKE, Ledger, Storage, World

from marless.coordinator.drive.ledger_items import LedgerJournal
from marless.functions.completion import CompletionReport


def units(size, unit):
    return max(1, ceil(size / unit))


class Table(Ledger):
    """A ledger that counts: an item has its body, 100 bytes and the run's name."""

    def load(self, item):
        record = super().load(item)
        self.world.use["reads"] += units(101 + (len(record.body) if record else 0), 4096)
        return record

    def commit(self, item, body, version):
        self.world.race()
        before = len(self[item].body) if item in self else 0
        # The lines of a round that are written right after a commit are on the bill that it committed.
        is_billed = item.startswith("line/") and self.world.commits_of_turn and not self.world.use
        self.world.use["writes"] += units(101 + max(len(body), before), 1024)
        if is_billed:
            self.world.record()
        after = super().commit(item, body, version)
        if item == "state":
            self.world.recorded["turns"] += not self.world.commits_of_turn
            self.world.commits_of_turn += 1
            self.world.record()
        return after


class Bucket(Storage):
    """Objects, with the coordinator's requests counted: it looks at each that it makes durable."""

    def persist(self, names):
        self.world.use["gets"] += len(list(names))

    def list(self, prefix):
        self.world.use["lists"] += 1
        return self.dict.list(prefix)


class Raced(World):
    """Just before each of `times` commits of turns, from the `first` on, a rival takes a whole turn.

    `recorded` is the usage of functions, and of turns until their last commits. Later usage of a turn cannot be billed.
    """

    def __init__(self, placement, first=0, times=0, reports_come=False):
        super().__init__(f"placement.rule={placement}")
        self.storage, self.ledger = Bucket(self), Table(self)
        self.journal = LedgerJournal(self.ledger)
        self.raced, self.reports_come, self.rival_acts = range(first, first + times), reports_come, False
        self.commits = self.rivals = self.commits_of_turn = 0
        self.use, self.recorded = Counter(), Counter()

    def race(self):
        self.commits += not self.rival_acts
        if self.rival_acts or self.commits not in self.raced:
            return
        use, commits_of_turn, self.rival_acts = self.use, self.commits_of_turn, True
        while self.reports_come and (event := next((event for event in self.events if event != WAKE), None)):
            self.events.remove(event)
            self.deliver(event)
        self.deliver(WAKE)
        self.use, self.commits_of_turn, self.rival_acts = use, commits_of_turn, False
        self.rivals += 1

    def record(self):
        self.recorded += self.use
        self.use = Counter()

    def coordinate(self):
        self.use, self.commits_of_turn = Counter(), 0
        super().coordinate()

    def add(self, name, member):
        members = super().add(name, member)
        self.recorded["writes"] += units(128 + sum(map(len, members)), 1024)
        self.recorded["gets"] += msgspec.msgpack.decode(member[1:], type=CompletionReport).gets
        return members

    def read(self, names):
        sets = super().read(names)
        self.use["reads"] += sum(units(128 + sum(map(len, members)), 4096) for members in sets)
        return sets

    def heads(self, keys):
        self.use["gets"] += len(keys)
        return super().heads(keys)


def races(*terms):
    """Yield runs where a rival comes before the first commit, before the second, and so on to the last."""
    first, commits = 1, 1
    while first <= commits:
        world = Raced(terms[0], first, *terms[1:]).run()
        yield world
        first, commits = first + 1, world.commits


MORE = [("packed", 2, True), ("split", 1, True), ("split", 2, False), ("packed", 3, True)]
QUICK = [("packed", 1, False), ("split", 2, True)]
RARE = [pytest.param(*case, marks=pytest.mark.conformance) for case in MORE]


@pytest.mark.slow
@pytest.mark.parametrize(("placement", "times", "reports_come"), [*QUICK, *RARE])
def test_bill_includes_usage_of_overtaken_turns(placement, times, reports_come):
    rivals = 0
    for world in races(placement, times, reports_come):
        meter, used = world.state.meter, world.recorded
        assert (meter.read_units, meter.write_units) == (used["reads"], used["writes"])
        assert (meter.gets, meter.lists) == (used["gets"], used["lists"])
        assert meter.coordinator.invocations == used["turns"]
        rivals += world.rivals
    assert rivals >= 12
