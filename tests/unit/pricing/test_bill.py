import json
import math
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marless.coordinator.pricing.bill import INIT_LIMIT_MS, CallCharge, Charge, Meter, bill, billed_ms, invocation
from marless.coordinator.pricing.prices import load_prices, priced_as, regions
from marless.functions.function_specs import BILLED
from marless.functions.messages.usage import CallUse, Usage

PRICES = load_prices()
PARTS = (*BILLED, "actions", "storage", "requests", "logs", "transfer")

counts = st.integers(0, 10**12)
charges = st.builds(Charge, **dict.fromkeys(Charge.__struct_fields__, counts))
action_charges = st.builds(CallCharge, **dict.fromkeys(CallCharge.__struct_fields__, counts))
meters = st.builds(
    Meter,
    **dict.fromkeys(BILLED, charges),
    **dict.fromkeys([name for name in Meter.__struct_fields__ if name not in (*BILLED, "actions")], counts),
    actions=st.dictionaries(st.sampled_from(["judge", "solver"]), action_charges),
)
quick = settings(max_examples=50, deadline=None)


def reservation(function, memory_mb, timeout_s, puts, gets, prices, architecture="arm", mb_per_vcpu=None):
    """The reserve of a budget cap for one attempt: the bill of losing it."""
    return bill(Meter().add_lost(function, memory_mb, timeout_s, puts, gets, mb_per_vcpu), prices, architecture).total


def exact(amounts):
    return sum((Fraction(amount) for amount in amounts), Fraction(0))


def test_the_price_file_holds_the_published_digits():
    assert PRICES.date == "2026-11-21"
    assert PRICES.lambda_.x86.gb_second == Decimal("0.0000166667")
    assert PRICES.lambda_.arm.gb_second == Decimal("0.0000133334")
    assert PRICES.lambda_.mb_per_vcpu == 1769
    assert PRICES.ec2["c6a.large"] == Decimal("0.0765")


def test_unknown_region_is_refused_with_known_regions():
    with pytest.raises(ValueError, match=r"'mars-north-1'; known regions: ap-northeast-1, .*us-east-1"):
        load_prices("mars-north-1")


@pytest.mark.parametrize("region", regions())
def test_price_lists_are_complete_near_us_east_1(region):
    # S3's requests in Tokyo cost 0.93 of it. The list for all other regions has at most twice its prices.
    own, usual = (msgspec.to_builtins(load_prices(name), str_keys=True) for name in (region, "us-east-1"))
    assert own["region"] == region
    for table in ("lambda", "s3", "dynamodb", "cloudwatch", "ecr", "transfer", "ec2"):
        for price, base in zip(numbers(own[table]), numbers(usual[table]), strict=True):
            assert base * Decimal("0.9") <= price <= base * 2


def numbers(table):
    for value in table.values():
        yield from numbers(value) if isinstance(value, dict) else [Decimal(value)]


def test_default_price_list_is_the_most_expensive():
    dearest = msgspec.to_builtins(load_prices(priced_as("sa-east-1")), str_keys=True)
    for region in regions():
        own = msgspec.to_builtins(load_prices(region), str_keys=True)
        for table in ("lambda", "s3", "dynamodb", "cloudwatch", "ecr", "transfer", "ec2"):
            assert all(a <= b for a, b in zip(numbers(own[table]), numbers(dearest[table]), strict=True))


def test_hundred_rounds_of_paper_cost_its_figure():
    # MARLess (SoCC'25): 100 x (50 x 1.19 s x 1 GB + 12 x 3.75 s x 2.33 GB) x $1.66667e-5 = $0.099 + $0.175 = $0.274.
    actor = Meter().add_invocation("actor", 1024, 1190, 0, Usage())
    learner = Meter().add_invocation("learner", 2386, 3750, 0, Usage())
    receipt = bill(sum([actor] * 50 * 100 + [learner] * 12 * 100, Meter()), PRICES, architecture="x86")
    assert float(receipt.actor) == pytest.approx(0.099, rel=0.005)
    assert float(receipt.learner) == pytest.approx(0.175, rel=0.005)
    assert float(receipt.actor + receipt.learner) == pytest.approx(0.274, rel=0.005)


def test_a_bill_worked_by_hand():
    usage = Usage(puts=2, gets=3, bytes_written=2**30, bytes_read=2**31)
    meter = Meter().add_invocation("actor", 2048, 1000.2, 499.3, usage).add_commit(1025).add_load(4096)
    # 1000.2 + 499.3 = 1499.5 -> 1500 ms at 2 GB = 3 GB-s. 1,025 bytes are two write units, 4,096 one read unit.
    assert meter.actor == Charge(invocations=1, billed_ms=1500, mb_ms=2048 * 1500, init_ms=500)
    standard = bill(meter, PRICES)
    assert standard.actor == Decimal("0.0000400002")
    assert standard.requests == Decimal("0.0000002")
    # 2 x 0.000005 + 3 x 0.0000004 + 2 x 0.000000625 + 1 x 0.000000125
    assert standard.storage == Decimal("0.000012575")
    assert standard.total == Decimal("0.0000527752")
    # 2 x 0.00000113 + 3 x 0.00000003 + 0.0032 + 2 x 0.0006 + the same ledger
    assert bill(meter, PRICES, storage="express").storage == Decimal("0.004403725")


def test_actions_cost_like_function_of_their_size():
    asked = CallUse(count=3, hits=2, ms=1500)
    meter = Meter().add_calls("judge", asked, 2048, 1769)
    assert meter.actions == {"judge": CallCharge(count=3, hits=2, billed_ms=1500, mb_ms=2048 * 1500)}
    receipt = bill(meter, PRICES)
    # 1.5 s at 2 GB = 3 GB-s, as of the actor above, and three requests. Hits are free.
    assert (receipt.actions, receipt.requests) == (Decimal("0.0000400002"), Decimal("0.0000006"))
    assert receipt.total == receipt.actions + receipt.requests
    assert [line.name for line in receipt.lines if line.dollars] == ["judge actions", "lambda requests"]
    # A function of half a core works twice as long.
    assert Meter().add_calls("judge", asked, 1024, 2048).actions["judge"].billed_ms == 3000


def test_actions_add_up_by_resource_without_trace():
    judge, solver = (Meter().add_calls(name, CallUse(count=1, ms=10), 1769) for name in ("judge", "solver"))
    both = judge + solver + judge
    assert {name: charge.count for name, charge in both.actions.items()} == {"judge": 2, "solver": 1}
    assert both * 3 == sum([both] * 3, Meter())
    assert "actions" not in msgspec.json.decode(msgspec.json.encode(Meter() + Meter()))


def test_express_storage_example_of_aws_is_reproduced():
    # AWS S3 FAQ: 1M PUT and 9M GET of 10 KB: $1.13 + $0.27 + $0.03 + $0.05.
    meter = Meter(puts=10**6, gets=9 * 10**6, bytes_written=10**6 * 10240, bytes_read=9 * 10**6 * 10240)
    lines = {line.name: round(float(line.dollars), 2) for line in bill(meter, PRICES, storage="express").lines}
    assert [lines[name] for name in ("s3 puts", "s3 gets", "s3 upload", "s3 retrieval")] == [1.13, 0.27, 0.03, 0.05]


@pytest.mark.parametrize(
    ("duration", "init", "memory", "mb_per_vcpu", "expected"),
    [
        (0.2, 0, 1024, None, 1),
        (1190, 0, 1024, None, 1190),
        (0.1, 0.2, 1024, None, 1),
        (100.0, 20.5, 1024, None, 121),
        (1000, 0, 1769, 1769, 1000),
        (1000, 0, 3538, 1769, 1000),
        (1000, 0, 1024, 1769, 1728),  # 1000 x 1769 / 1024 = 1727.5
        (100, 100, 128, 1769, 2765),  # 200 x 13.8203125 = 2764.0625
    ],
)
def test_billed_milliseconds_round_up_and_scale_by_core(duration, init, memory, mb_per_vcpu, expected):
    assert billed_ms(duration, init, memory, mb_per_vcpu) == expected


# Also as small as 1e-07 and as large as 1e+16, which Python prints with an exponent.
@given(
    duration=st.floats(0, 1e17),
    init=st.floats(0, INIT_LIMIT_MS) | st.integers(0, INIT_LIMIT_MS),
    memory=st.integers(128, 10240),
    mb_per_vcpu=st.sampled_from([None, 1769]),
)
def test_billed_milliseconds_are_those_of_exact_fractions(duration, init, memory, mb_per_vcpu):
    stretch = max(Fraction(1), Fraction(mb_per_vcpu or 0, memory))
    exactly = (Fraction(str(duration)) + Fraction(str(init))) * stretch
    assert billed_ms(duration, init, memory, mb_per_vcpu) == math.ceil(exactly)


@quick
@given(meters, st.integers(0, 1000))
def test_meter_times_number_equals_repeated_sum(meter, count):
    assert meter * 3 == meter + meter + meter
    assert meter * count + meter == meter * (count + 1)
    assert meter * 0 == Meter()


@quick
@given(st.lists(st.tuples(st.sampled_from(BILLED), st.floats(0, 1000), st.floats(0, 9), st.integers(0, 9))))
def test_invocations_count_same_together_and_one_by_one(ended):
    one_by_one = Meter()
    for name, duration, init, puts in ended:
        one_by_one = one_by_one.add_invocation(name, 1024, duration, init, Usage(puts=puts), 1769)
    together = [invocation(name, 1024, took, init, Usage(puts=puts), 1769) for name, took, init, puts in ended]
    assert Meter().add_invocations(together) == one_by_one


@pytest.mark.parametrize(("duration", "memory"), [(-1.0, 1024), (float("nan"), 1024), (float("inf"), 1024), (1.0, 0)])
def test_a_duration_that_cannot_be_is_refused(duration, memory):
    with pytest.raises(ValueError):
        billed_ms(duration, 0, memory)


def test_a_function_that_does_not_exist_is_refused():
    with pytest.raises(
        ValueError, match=r"unknown function 'puts'; known: actor, learner, evaluator, language, coordinator"
    ):
        Meter().add_invocation("puts", 1024, 1, 0, Usage())


def test_a_lost_attempt_is_billed_at_its_reservation():
    meter = Meter().add_lost("learner", 3072, 60, puts=3, gets=50)
    # 60 s + 10 s of INIT at 3 GB = 210 GB-s. 3 x 0.000005 + 50 x 0.0000004. One request.
    assert meter.learner == Charge(invocations=1, billed_ms=70_000, mb_ms=3072 * 70_000, attempts_lost=1)
    expected = 210 * Decimal("0.0000133334") + Decimal("0.000035") + Decimal("0.0000002")
    assert bill(meter, PRICES).total == expected
    assert reservation("learner", 3072, 60, 3, 50, PRICES) == expected


@quick
@given(
    timeout=st.floats(0.001, 900),
    share=st.floats(0, 1),
    init=st.floats(0, INIT_LIMIT_MS),
    memory=st.integers(128, 10240),
    mb_per_vcpu=st.sampled_from([None, 1769]),
)
def test_no_attempt_costs_more_than_its_reservation(timeout, share, init, memory, mb_per_vcpu):
    usage = Usage(puts=2, gets=7, bytes_written=10**9, bytes_read=10**9)
    spent = Meter().add_invocation("actor", memory, timeout * share * 1000, init, usage, mb_per_vcpu)
    reserved = reservation("actor", memory, timeout, 2, 7, PRICES, "arm", mb_per_vcpu)
    assert bill(spent, PRICES).total <= reserved


@quick
@given(meters, meters, meters)
def test_meters_add_in_any_order(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + Meter() == a


@quick
@given(meters, meters, st.sampled_from(["arm", "x86"]), st.sampled_from(["standard", "express"]))
def test_bill_of_sum_is_sum_of_bills(a, b, architecture, storage):
    first, second, both = (bill(meter, PRICES, architecture, storage) for meter in (a, b, a + b))
    assert exact([both.total]) == exact([first.total, second.total])
    assert all(getattr(both, part) >= getattr(first, part) for part in (*PARTS, "total"))


@quick
@given(meters, st.sampled_from(["arm", "x86"]), st.sampled_from(["standard", "express"]))
def test_total_is_exact_sum_of_parts(meter, architecture, storage):
    receipt = bill(meter, PRICES, architecture, storage)
    assert exact([receipt.total]) == exact(getattr(receipt, part) for part in PARTS)
    assert exact([receipt.total]) == exact(line.dollars for line in receipt.lines)
    assert all(Fraction(line.dollars) == Fraction(line.quantity) * Fraction(line.unit_price) for line in receipt.lines)


def test_a_retry_adds_its_cost():
    once = Meter().add_invocation("actor", 1024, 250, 0, Usage(puts=1))
    retried = once.add_lost("actor", 1024, 30)
    assert bill(retried, PRICES).total - bill(once, PRICES).total == reservation("actor", 1024, 30, 1, 0, PRICES)


@quick
@given(meters)
def test_a_meter_survives_json(meter):
    assert msgspec.json.decode(msgspec.json.encode(meter), type=Meter) == meter


def test_bill_file_names_prices_and_keeps_digits():
    meter = Meter().add_invocation("actor", 1024, 1191, 0, Usage(puts=1))
    document = json.loads(bill(meter, PRICES).to_json(), parse_float=Decimal)
    assert [document[key] for key in ("currency", "region", "prices_date", "architecture")] == [
        "USD",
        "us-east-1",
        "2026-11-21",
        "arm",
    ]
    assert "AWS Lambda" in document["note"]
    # 1.191 GB-s x 0.0000133334
    assert document["actor"] == Decimal("0.0000158800794")
    assert document["total"] == sum(Decimal(document[part]) for part in PARTS)
    assert {"name", "quantity", "unit", "unit_price", "dollars"} == set(document["lines"][0])
