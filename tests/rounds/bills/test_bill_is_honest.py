"""The bill against the test's own count of everything that went through the run's ports."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from driver import CONTROLLER, ROLES, SMALL

from marless.backends import local
from marless.coordinator.config.loading import load
from marless.coordinator.core.state import Plan
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Ports
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.bill import bill
from marless.coordinator.pricing.prices import load_prices
from marless.functions.messages.exchange import Done, Failed
from marless.functions.warm_cache import WARM

MEMORY = {"actor": 1024, "learner": 2386, "evaluator": 1769}
SIZES = [f"functions.{name}.memory_mb={memory}" for name, memory in MEMORY.items()]


class Account:
    def __init__(self, backend):
        self._storage, self._ledger, self._invoker = backend.storage, backend.ledger, backend.invoker
        self.mb_ms = dict.fromkeys(MEMORY, 0)
        self.kinds = []
        self.requests = self.puts = self.gets = self.write_units = self.read_units = 0

    def __getattr__(self, name):
        owners = {"commit": self._ledger, "load": self._ledger, "invoke": self._invoker, "wait": self._invoker}
        return getattr(owners.get(name, self._storage), name)

    def put(self, key, body):
        self.puts += 1
        self._storage.put(key, body)

    def persist(self, *keys):
        return self._storage.persist(*keys) if keys else self._ledger.persist()

    def commit(self, item, body, version):
        self.write_units += math.ceil(len(body) / 1024)
        return self._ledger.commit(item, body, version)

    def load(self, item):
        record = self._ledger.load(item)
        self.read_units += max(1, math.ceil(len(record.body) / 4096)) if record else 1
        return record

    def wait(self, timeout_s):
        reports = self._invoker.wait(timeout_s)
        for report in reports:
            answer = msgspec.json.decode(report.body, type=Done | Failed)
            memory = MEMORY[report.function]
            took = Fraction(str(report.duration_ms)) + Fraction(str(report.init_ms))
            self.mb_ms[report.function] += memory * math.ceil(took * max(Fraction(1), Fraction(1769, memory)))
            self.requests += 1
            self.puts += answer.usage.puts
            self.gets += answer.usage.gets
            self.kinds.append(report.id.split("/", 2)[2].split("/")[0])
        return reports

    def dollars(self):
        compute = Decimal(sum(self.mb_ms.values())) / 1024 / 1000 * Decimal("0.0000133334")
        stored = self.puts * Decimal("0.005") / 1000 + self.gets * Decimal("0.0004") / 1000
        ledger = self.write_units * Decimal("0.625") / 10**6 + self.read_units * Decimal("0.125") / 10**6
        return compute + self.requests * Decimal("0.20") / 10**6 + stored + ledger


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        ((*CONTROLLER, "placement.rule=split"), {"trial", "team"}),
        ((*CONTROLLER, "placement.rule=whole"), {"trial", "team"}),
        ((*CONTROLLER, "placement.rule=packed", "placement.inline_objects=true"), {"trial", "team"}),
        ((*ROLES, "placement.rule=split"), {"team"}),
    ],
    ids=["split", "whole", "packed", "roles"],
)
def test_bill_counts_every_invocation_summary_trial_and_write(tmp_path, settings, kinds):
    WARM.keeps_objects = False  # like deployed functions, as the bill assumes
    backend = local.BACKEND.open(tmp_path, 1)
    try:
        account = Account(backend)
        plan = Plan("run", load(None, [*SMALL, *settings, *SIZES]), "code", load_prices(), Platform())
        driver = Driver(plan, Ports(account, account, account, Silent()))
        driver.begin()
        while driver.step():
            pass
    finally:
        backend.close()
    meter = driver.state.meter
    assert kinds <= set(account.kinds)
    assert (meter.puts, meter.gets) == (account.puts, account.gets)
    assert (meter.write_units, meter.read_units) == (account.write_units, account.read_units)
    cost = bill(meter, plan.prices)
    assert cost.total == account.dollars()
    assert Decimal(json.dumps(json.loads(cost.to_json(), parse_float=str)["total"]).strip('"')) == account.dollars()


class Silent:
    def record(self, line):
        pass

    def persist(self):
        pass
