"""The bill of runs in the cloud, line by line against AWS's own formulas, worked out by hand.

Prices: us-east-1, arm, as the price file has them. A GB-second of Lambda is 1,024 MB. GB of logs and of data are 2^30.
"""

import base64
import math
from dataclasses import replace
from decimal import Decimal, localcontext

import msgspec
import pytest
from simulated import World, answered, make_plan, on_lambda, promising

from aws_emulator.middleware.capacity import item_size
from marless.coordinator.core.budget import item_bytes, turn_meter, written_bytes
from marless.coordinator.placement.coordination_cost import MEMBER_BYTES, reports
from marless.coordinator.placement.list_price import Tariff
from marless.coordinator.pricing.bill import (
    LOG_BYTES,
    Bill,
    Charge,
    Meter,
    bill,
    billed_ms,
    event_requests,
    read_units,
    write_units,
)
from marless.coordinator.pricing.prices import load_prices
from marless.functions.completion import CompletionReport, gather_reports, report_completion, set_name
from marless.functions.messages.order import ReportTo
from marless.functions.messages.usage import Usage

PRICES = load_prices()


def lines(meter, **terms):
    return {line.name: line for line in bill(meter, PRICES, **terms).lines}


def dollars(meter, name, **terms):
    return lines(meter, **terms)[name].dollars


# -- Lambda


def test_compute_is_memory_times_whole_milliseconds_start_included():
    # AWS Lambda pricing: 0.05 ms count as 1 ms. 612.04 + 499.93 = 1,111.97 -> 1,112 ms at 512 MB: 0.556 GB-s.
    assert billed_ms(0.05, 0, 512) == 1
    meter = Meter().add_invocation("coordinator", 512, 612.04, 499.93, Usage())
    assert meter.coordinator == Charge(invocations=1, billed_ms=1112, mb_ms=569_344, init_ms=500)
    assert dollars(meter, "coordinator compute") == Decimal("0.556") * Decimal("0.0000133334")
    assert dollars(meter, "coordinator compute", architecture="x86") == Decimal("0.556") * Decimal("0.0000166667")
    assert bill(meter, PRICES).coordinator == Decimal("0.0000074133704")
    assert dollars(meter, "lambda requests") == Decimal("0.0000002")


@pytest.mark.parametrize(
    ("kilobytes", "requests"), [(0, 1), (256, 1), (256.001, 2), (320, 2), (320.001, 3), (512, 5), (1024, 13)]
)
def test_a_large_event_is_several_requests(kilobytes, requests):
    # AWS Lambda pricing: one for the first 256 KB, one for each further 64 KB. 1 MB: 1 + 768 / 64.
    size = math.ceil(1024 * kilobytes)
    assert event_requests(size) == requests
    meter = Meter().add_invocation("learner", 512, 1, 0, Usage()).add_event(size)
    assert dollars(meter, "lambda requests") == requests * Decimal("0.0000002")
    assert Tariff.of(PRICES).parts(meter).requests == pytest.approx(requests * 2e-7)


def test_platform_time_on_vcpu_share_is_not_rescaled():
    assert billed_ms(345.2, 0, 512) == 346
    assert billed_ms(345.2, 0, 512, mb_per_vcpu=1769) == 1193  # 345.2 x 1769 / 512 = 1192.7


# -- S3


def test_requests_have_two_classes_and_deletion_none():
    # Amazon S3 pricing, S3 Standard: PUT and LIST $0.005, GET and HEAD $0.0004 per 1,000.
    meter = Meter().add_stored(Usage(puts=7)).add_listing(2).add_stored(Usage(gets=1000))
    assert dollars(meter, "s3 puts") == Decimal("0.000035")
    assert dollars(meter, "s3 lists") == Decimal("0.00001")
    assert dollars(meter, "s3 gets") == Decimal("0.0004")
    assert bill(meter, PRICES).total == bill(meter, PRICES).storage == Decimal("0.000445")
    # S3 Express One Zone lists at the price of its PUT too.
    assert dollars(meter, "s3 lists", storage="express") == Decimal("0.00000226")


# -- DynamoDB


@pytest.mark.parametrize(
    ("size", "writes", "reads"), [(0, 1, 1), (1024, 1, 1), (1025, 2, 1), (4096, 4, 1), (4097, 5, 2)]
)
def test_items_are_written_and_read_in_size_units(size, writes, reads):
    assert (write_units(size), read_units(size)) == (writes, reads)


def test_write_is_billed_by_larger_of_both_sizes():
    # A state of 9,000 bytes replaces one of 12,500: 13 units. The reverse costs the same.
    assert Meter().add_commit(9000, before=12500) == Meter().add_commit(12500, before=9000) == Meter(write_units=13)


def test_eventually_consistent_read_costs_half():
    # 4,097 bytes: two units at $0.125 per million, or one.
    sure, stale = Meter().add_load(4097), Meter().add_load(4097, consistent=False)
    assert (dollars(sure, "ledger reads"), dollars(stale, "ledger reads")) == (
        Decimal("0.00000025"),
        Decimal("0.000000125"),
    )
    # Three reads of half a unit each are one and a half.
    assert lines(Meter(half_reads=3))["ledger reads"].quantity == Decimal("1.5")


def test_sixty_four_reports_cost_ninety_four_units():
    # A set's item has 128 bytes in addition to its members of 26. The k-th write leaves 128 + 26 k bytes. That is one
    # unit up to k = 34 (1,012 bytes), and two from k = 35 (1,038) to 64 (1,792). In all 34 + 60. Read back once: one
    # unit.
    assert reports(64) == Meter(write_units=94, read_units=1, gets=64)
    meter = sum((Meter().add_commit(128 + 26 * k) for k in range(1, 65)), Meter())
    assert dollars(meter, "ledger writes") == 94 * Decimal("0.000000625")


def test_more_tasks_report_through_sets_of_sets():
    # 65: a full set, a set of one, and both report above. 4,097: 64 full sets and one, 65 reports above, and of those
    # a full set and one report above.
    assert reports(65) == Meter(write_units=94 + 1 + 2, read_units=2, gets=65)
    assert reports(4097) == Meter(write_units=64 * 94 + 1 + 65 + 2, read_units=65, gets=4097)
    assert reports(0) == Meter()


class Sets(dict):
    def add(self, name, member):
        self[name] = frozenset({*self.get(name, ()), member})
        return self[name]

    def read(self, names):
        return [self.get(name, frozenset()) for name in names]


@pytest.mark.parametrize("count", [1, 64, 65, 200])
def test_assumed_report_sizes_match_real_reports(count):
    # A learner's usual report, in an environment that it started.
    used = {"puts": 2, "gets": 9, "bytes_written": 440_932, "bytes_read": 654_321}
    ended = CompletionReport(attempt=0, duration_ms=1234, peak_mb=180, start_ms=950, **used)
    sets = Sets()
    woken = [
        report_completion(sets, ReportTo(ask="7", index=index, count=count, coordinator="c"), ended)
        for index in range(count)
    ]
    assert woken == [False] * (count - 1) + [True]
    gathered = gather_reports(sets, "7", count)
    metered = sum((Meter().add_commit(size) for size in gathered.updates), Meter(gets=count))
    metered += sum((Meter().add_load(size) for size in gathered.reads), Meter())
    assert metered.write_units <= reports(count).write_units <= 1.1 * metered.write_units
    assert (metered.read_units, metered.gets) == (reports(count).read_units, reports(count).gets)
    assert max(len(member) for member in sets[set_name("7", 0, 0)]) <= MEMBER_BYTES


# -- CloudWatch, EventBridge, data transfer


def test_logs_are_paid_by_the_byte_taken_in():
    # Amazon CloudWatch pricing: $0.50 a GB. 2^20 invocations of 1 KB each are one GB.
    assert LOG_BYTES == 1024
    assert dollars(Meter().add_log(2**20 * LOG_BYTES), "logs") == Decimal("0.5")
    # One invocation: 0.5 / 2^20, and no digit is lost.
    assert bill(Meter().add_log(LOG_BYTES), PRICES).logs == Decimal("0.000000476837158203125")


def test_outgoing_transfer_is_paid_and_incoming_is_free():
    # Data transfer: $0.09 a GB to the internet. A carried answer of 512 KB: 0.09 / 2048.
    cost = bill(Meter().add_transfer(512 * 1024), PRICES)
    assert cost.transfer == cost.total == Decimal("0.0000439453125")


# -- runs


def test_bill_and_meter_before_cloud_are_readable():
    meter = msgspec.json.decode(b'{"actor":{"invocations":3,"billed_ms":9},"puts":4,"read_units":1}', type=Meter)
    assert meter == Meter(actor=Charge(invocations=3, billed_ms=9), puts=4, read_units=1)
    document = msgspec.json.decode(bill(meter, PRICES).to_json())
    for name in ("coordinator", "logs", "transfer"):
        del document[name]
    assert msgspec.convert(document, Bill, strict=False).coordinator == 0


def test_local_run_pays_nothing_cloud_only():
    cost = bill(World(make_plan("stop.rounds=2")).finish().meter, PRICES)
    assert cost.coordinator == cost.logs == cost.transfer == 0
    assert {line.name for line in cost.lines if not line.quantity} >= {
        "coordinator compute",
        "s3 lists",
        "logs",
        "data transfer out",
    }


def in_table(item, body, version, run="r"):
    """The size of the item that `marless.infra.aws.dynamodb` writes, by "DynamoDB item sizes and formats"."""
    attributes = {
        "scope": {"S": f"run/default/{run}"},
        "item": {"S": item},
        "version": {"N": str(version)},
        "at": {"N": "1763745894.123"},
        "body": {"B": base64.b64encode(body).decode()},
    }
    mark = 100 + len(run) + len(body) - len("write") - item_size(attributes)
    return item_size({**attributes, "write": {"B": base64.b64encode(bytes(mark)).decode()}})


@pytest.mark.parametrize("run", ["r", "simple_spread-mappo-s1-20260101-120000"])
def test_item_is_billed_with_names_and_extra_fields(run):
    # Names: scope 5, item 4, version 7, at 2, write 5, body 4. Values: "run/default/r" 13, "state" 5, a version of two
    # digits 2, 13 digits 8. A mark of 46 makes 100 bytes without body and run, and the body has 1,000.
    assert in_table("state", bytes(1000), 12) == 27 + 13 + 5 + 2 + 8 + 46 + 1000
    plan = replace(promising(make_plan(), items_padded=True), run=run)
    for item in ("state", "checkpoint", "line/000012"):
        assert item_bytes(plan, 1000) == in_table(item, bytes(1000), 12, run)
    assert item_bytes(promising(plan, items_padded=False), 1000) == 1000
    # 9,000 bytes replace 12,500: (12,500 + 101) / 1,024 = 12.3.
    assert write_units(written_bytes(replace(plan, run="r"), 9000, before=12500)) == 13


def test_coordinator_turn_is_billed_with_first_reads():
    # A manifest of 4,090 bytes is an item of more than 4,096: two units, and one for the lease. 200.4 + 999.7 ms.
    plan = on_lambda(make_plan(), cpu_scaling=False, coordinator_mb=512)
    meter = turn_meter(plan, 200.4, 999.7, (4090, 0))
    assert meter.read_units == 3 and meter.log_bytes == LOG_BYTES
    # 1,200.1 -> 1,201 ms at 512 MB: 0.6005 GB-s.
    assert dollars(meter, "coordinator compute") == Decimal("0.6005") * Decimal("0.0000133334")
    assert dollars(meter, "lambda requests") == Decimal("0.0000002")


def overheard(world):
    """Records the bytes of answers and the units of writes of the next run: of the larger item, before or after."""
    answers, written, sizes = [], [], {}
    wait, commit = world.invoker.wait, world.ledger.commit

    def waited(timeout_s):
        reports = wait(timeout_s)
        answers.extend(len(report.body) for report in reports)
        return reports

    def committed(item, body, version):
        size = in_table(item, body, version + 1)
        written.append(math.ceil(max(size, sizes.get(item, 0)) / 1024))
        sizes[item] = size
        return commit(item, body, version)

    world.invoker.wait, world.ledger.commit = waited, committed
    return answers, written


def test_bill_of_deployed_run_equals_hand_computation():
    # One round: describe and sample (actor), initialise and learn (learner), the final and the absolute evaluation.
    sizes = {"actor": 1024, "learner": 2048, "evaluator": 512}
    settings = [f"functions.{name}.memory_mb={memory}" for name, memory in sizes.items()]
    # Functions that are deployed and measured by Lambda itself.
    plan = on_lambda(make_plan("stop.rounds=1", *settings, init_limit_ms=10_000), cpu_scaling=False)
    cold = set(sizes)

    def script(function, request):
        init_ms = 499.3 if function in cold else 0.0
        cold.discard(function)
        usage = Usage(puts=2, gets=3, bytes_written=4096, bytes_read=1024)
        return [answered(function, request, usage=usage, duration_ms=100.2, init_ms=init_ms)]

    world = World(plan, script)
    answers, written = overheard(world)
    state = world.finish()
    found = lines(state.meter)
    # Each function is called twice: 100.2 + 499.3 = 599.5 -> 600 ms, and 100.2 -> 101 ms. 701 ms together.
    assert found["actor compute"].dollars == Decimal("0.701") * Decimal("0.0000133334")
    assert found["learner compute"].dollars == Decimal("1.402") * Decimal("0.0000133334")
    assert found["evaluator compute"].dollars == Decimal("0.3505") * Decimal("0.0000133334")
    assert found["coordinator compute"].dollars == 0
    assert found["lambda requests"].dollars == 6 * Decimal("0.0000002")
    assert found["s3 puts"].dollars == 12 * Decimal("0.000005")
    # Six functions read three objects each. The checkpoint at the end checks for the two that it keeps.
    assert len(state.checkpointed) == 2
    assert found["s3 gets"].dollars == (18 + 2) * Decimal("0.0000004")
    # Leftover objects are listed when a run starts.
    assert found["s3 lists"].dollars == Decimal("0.000005")
    # Nine writes of the state's item and one of the checkpoint's. Their first versions had nothing to read.
    assert len(written) == 10 and found["ledger writes"].dollars == sum(written) * Decimal("0.000000625")
    assert found["ledger reads"].dollars == 2 * Decimal("0.000000125")
    # The answers leave the region, to the driver.
    assert found["data transfer out"].quantity == Decimal(sum(answers)) / 2**30 > 0
    # Data between S3 and functions of its region is free.
    assert found["s3 upload"].quantity == Decimal(6 * 4096) / 2**30 and found["s3 upload"].dollars == 0
    assert found["s3 retrieval"].dollars == 0
    # Six KB of log: 6 / 2^20 GB at $0.50.
    assert found["logs"].dollars == Decimal(6) / 2**20 / 2
    with localcontext() as exact:
        exact.prec = 60
        assert sum(line.dollars for line in found.values()) == bill(state.meter, PRICES).total
