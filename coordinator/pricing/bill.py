"""The meter of a run, counted in integers, and its bill, computed in exact decimals.

A `Meter` adds up invocations, billed milliseconds, storage operations, capacity units of the ledger, and bytes of logs
and of data that leaves the region. All are integers, so sums do not depend on the order of arrival. `bill` multiplies a
meter with a price list. Every divisor in a price list (1,000 and 10^6 requests, 1,024,000 MB-ms, 2^30 bytes) has a
finite decimal expansion, so **nothing is rounded**. A total equals the sum of its parts, and the bill of a sum is the
sum of the bills, to the last digit. The one rounding is Lambda's own, up to a whole millisecond for each invocation, in
`billed_ms`. A printed bill may be shortened.
"""

from collections import defaultdict
from collections.abc import Iterable
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec

from marless.coordinator.pricing.prices import Architecture, Prices, StorageClass
from marless.functions.encoding import to_json_file
from marless.functions.function_specs import BILLED, NAMES, by_function
from marless.functions.messages.usage import CallUse, Usage, sums_by_name

_GB = 2**30
# Lambda lets INIT run for 10 s at most, outside the function's time-out, and bills it. Source: AWS Compute Blog, "AWS
# Lambda standardizes billing for INIT Phase", 2025-04-29.
INIT_LIMIT_MS = 10_000

# An inexact result raises instead of losing a digit.
_EXACT = Context(prec=200, traps=[Inexact, InvalidOperation, DivisionByZero])

# The most bytes in the log of one invocation. The platform's lines take 300 bytes as text and 700 as JSON, by examples
# in the Lambda developer guide ("Sending Lambda function logs to CloudWatch Logs"). The function adds one line.
LOG_BYTES = 1024

NOTE = (
    "What this run would cost on AWS Lambda: durations measured on this machine, stretched to the share of a vCPU that "
    "a function's memory buys, and rounded up to 1 ms for each invocation; start-ups included; attempts that were lost "
    "are billed at the most they may have cost; list prices without free tier; keeping the data after the run is not "
    "included."
)
CLOUD_NOTE = (
    "What this run costs on AWS: durations as the functions measured them, rounded up to 1 ms for each invocation; "
    "start-ups included; attempts that were lost are billed at the most they may have cost; list prices without free "
    "tier; keeping the data after the run, and the deployment while nothing runs, are not included."
)


class _Counts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Quantities that add exactly, field by field. Fields that are tables add name by name."""

    def __add__(self, other: Self) -> Self:
        # A decision adds several meters that are mostly zero, so this takes a tenth of the time.
        zero = type(self)()
        sums = {
            name: _sum(getattr(self, name), term)
            for name in self.__struct_fields__
            if (term := getattr(other, name)) != getattr(zero, name)
        }
        return msgspec.structs.replace(self, **sums)

    def __mul__(self, count: int) -> Self:
        return type(self)(**{name: _product(getattr(self, name), count) for name in self.__struct_fields__})


def _sum(first: Any, second: Any) -> Any:
    return sums_by_name(first, second) if isinstance(first, dict) else first + second


def _product(value: Any, count: int) -> Any:
    return {name: each * count for name, each in value.items() if count} if isinstance(value, dict) else value * count


class Charge(_Counts, frozen=True):
    """The use of one function."""

    invocations: int = 0
    # Start-ups included.
    billed_ms: int = 0
    # The sum of memory times billed milliseconds.
    mb_ms: int = 0
    # Invocations billed at their largest possible cost.
    attempts_lost: int = 0
    # Start-ups' part of `billed_ms`.
    init_ms: int = 0


class CallCharge(_Counts, frozen=True):
    """The use of one resource."""

    # Paid actions, and requests with a cached answer of an earlier paid action.
    count: int = 0
    hits: int = 0
    billed_ms: int = 0
    # The sum of memory times billed milliseconds.
    mb_ms: int = 0


class Invocation(NamedTuple):
    """A finished invocation in billed milliseconds, `init_ms` of them for start-up."""

    function: str
    memory_mb: int
    billed_ms: int
    init_ms: int
    usage: Usage


# A `Charge` for every function.
if TYPE_CHECKING:
    _Charges = _Counts
else:
    _Charges = by_function(_Counts, Charge, Charge(), BILLED)


class Meter(_Charges, frozen=True, kw_only=True):
    """The use of a run: compute by function, storage operations and bytes, capacity units of the ledger. Deleting
    objects is free. `Meter()` is zero."""

    puts: int = 0
    # GET and HEAD requests, of whole objects, parts or headers.
    gets: int = 0
    lists: int = 0
    bytes_written: int = 0
    bytes_read: int = 0
    write_units: int = 0
    read_units: int = 0
    # Eventually consistent reads. Each read unit costs half.
    half_reads: int = 0
    log_bytes: int = 0
    # Bytes that left the region for the internet.
    bytes_out: int = 0
    # Requests beyond one per invocation, for large events.
    extra_requests: int = 0
    # By the name of the resource.
    actions: dict[str, CallCharge] = msgspec.field(default_factory=dict)

    def add_invocation(
        self,
        function: str,
        memory_mb: int,
        duration_ms: float,
        init_ms: float,
        usage: Usage,
        mb_per_vcpu: int | None = None,
    ) -> Self:
        """Return this meter plus a finished invocation. See `billed_ms` for `mb_per_vcpu`.

        Raises `ValueError` for a function that is not deployed.
        """
        return self.add_invocations([invocation(function, memory_mb, duration_ms, init_ms, usage, mb_per_vcpu)])

    def add_invocations(self, invocations: Iterable[Invocation]) -> Self:
        """Return this meter plus finished invocations. Raises `ValueError` for a function that is not deployed."""
        invocations_of: dict[str, list[Invocation]] = defaultdict(list)
        for each in invocations:
            invocations_of[each.function].append(each)
        meter = self
        for function, group in invocations_of.items():
            charge = Charge(
                invocations=len(group),
                billed_ms=sum(each.billed_ms for each in group),
                mb_ms=sum(each.memory_mb * each.billed_ms for each in group),
                init_ms=sum(each.init_ms for each in group),
            )
            usage = Usage(
                puts=sum(each.usage.puts for each in group),
                gets=sum(each.usage.gets for each in group),
                bytes_written=sum(each.usage.bytes_written for each in group),
                bytes_read=sum(each.usage.bytes_read for each in group),
            )
            meter = meter.add_charge(function, charge).add_stored(usage)
        return meter

    def add_lost(
        self,
        function: str,
        memory_mb: int,
        timeout_s: float,
        puts: int = 1,
        gets: int = 0,
        mb_per_vcpu: int | None = None,
        init_limit_ms: int = INIT_LIMIT_MS,
    ) -> Self:
        """This meter plus an attempt that never reported, billed at its largest possible cost.

        The cost is the full time-out, the longest start-up (`init_limit_ms`, 0 if the time-out covers it), `puts` PUT
        requests for objects that it may have stored, and `gets` GET requests. See `billed_ms` for `mb_per_vcpu`.
        """
        duration = billed_ms(float(Fraction(str(timeout_s)) * 1000), init_limit_ms, memory_mb, mb_per_vcpu)
        charge = Charge(invocations=1, billed_ms=duration, mb_ms=memory_mb * duration, attempts_lost=1)
        return self.add_charge(function, charge).add_stored(Usage(puts=puts, gets=gets))

    def add_commit(self, size: int, before: int = 0) -> Self:
        """This meter plus a write of a ledger item of `size` bytes after the write and `before` bytes before it.

        PutItem and UpdateItem are billed by the larger of the two, however little changes, and even if their condition
        fails. Source: DynamoDB developer guide, "DynamoDB read and write operations".
        """
        return self + type(self)(write_units=write_units(max(size, before)))

    def add_load(self, size: int, consistent: bool = True) -> Self:
        """Return this meter plus a read of a ledger item of `size` bytes, at half price if eventually consistent."""
        units = read_units(size)
        return self + (type(self)(read_units=units) if consistent else type(self)(half_reads=units))

    def add_listing(self, count: int = 1) -> Self:
        """This meter plus `count` LIST requests, one per thousand listed keys and at least one.

        They cost as much as PUT requests (Amazon S3 pricing, "Requests & data retrievals").
        """
        return self + type(self)(lists=count)

    def add_log(self, size: int) -> Self:
        """This meter plus `size` bytes of ingested log (Amazon CloudWatch pricing, "Logs", standard class)."""
        return self + type(self)(log_bytes=size)

    def add_transfer(self, size: int) -> Self:
        """This meter plus `size` bytes sent out of AWS (Amazon EC2 pricing, "Data transfer")."""
        return self + type(self)(bytes_out=size)

    def add_event(self, size: int) -> Self:
        """Return this meter plus the requests of an asynchronous event of `size` bytes besides its invocation."""
        return self + type(self)(extra_requests=event_requests(size) - 1)

    def add_stored(self, usage: Usage) -> Self:
        """Return this meter plus storage operations of the coordinator. HEAD requests and reads of parts are `gets`."""
        return self + type(self)(
            puts=usage.puts, gets=usage.gets, bytes_written=usage.bytes_written, bytes_read=usage.bytes_read
        )

    def add_calls(self, name: str, use: CallUse, memory_mb: int, mb_per_vcpu: int | None = None) -> Self:
        """Return this meter plus the use of a resource. Its actions cost as much as invocations of a function of
        `memory_mb`. See `billed_ms` for `mb_per_vcpu`."""
        ms = billed_ms(use.ms, 0, memory_mb, mb_per_vcpu)
        charge = CallCharge(count=use.count, hits=use.hits, billed_ms=ms, mb_ms=memory_mb * ms)
        meter = self.add_stored(Usage(puts=use.puts, gets=use.gets))
        return msgspec.structs.replace(meter, actions=sums_by_name(self.actions, {name: charge}))

    def add_charge(self, function: str, charge: Charge) -> Self:
        """Return this meter plus the use of a function. Raises `ValueError` for an unknown function."""
        if function not in BILLED:
            raise ValueError(f"unknown function {function!r}; known: {', '.join(BILLED)}")
        return msgspec.structs.replace(self, **{function: charge_of(self, function) + charge})


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line of the bill: `dollars` is exactly `quantity` times `unit_price`."""

    name: str
    quantity: Decimal
    unit: str
    unit_price: Decimal
    dollars: Decimal


class _Lines(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    currency: str = "USD"
    region: str
    prices_date: str
    architecture: Architecture
    storage_class: StorageClass
    note: str = NOTE
    lines: tuple[Line, ...]
    total: Decimal


# The compute of every function that serves tasks.
if TYPE_CHECKING:
    _Compute = _Lines
else:
    _Compute = by_function(_Lines, Decimal, Decimal(0))


class Bill(_Compute, frozen=True, kw_only=True):
    """The cost of a meter, in dollars.

    `total` is exactly the sum of the lines. It adds compute (functions, coordinator, resources' actions), storage (S3
    and the ledger), requests (Lambda's fee for invocations), logs and transfer.
    """

    storage: Decimal
    requests: Decimal
    coordinator: Decimal = Decimal(0)
    actions: Decimal = Decimal(0)
    logs: Decimal = Decimal(0)
    transfer: Decimal = Decimal(0)

    def to_json(self) -> bytes:
        """Return the document for bill.json, indented. Amounts are JSON numbers with all their digits."""
        return to_json_file(self)


def write_units(size: int) -> int:
    """The write units that DynamoDB bills for an item of `size` bytes: 1 KB a unit, at least one."""
    return max(1, -(-size // 1024))


def read_units(size: int) -> int:
    """The read units that DynamoDB bills for an item of `size` bytes, existing or not: 4 KB a unit, at least one.

    An eventually consistent read costs half of it.
    """
    return max(1, -(-size // 4096))


def event_requests(size: int) -> int:
    """The requests that Lambda bills for an asynchronous event of `size` bytes.

    One for the first 256 KB, and one for each further 64 KB begun (AWS Lambda pricing, "Requests").
    """
    return 1 + max(0, -(-(size - 256 * 1024) // (64 * 1024)))


def invocation(
    function: str, memory_mb: int, duration_ms: float, init_ms: float, usage: Usage, mb_per_vcpu: int | None = None
) -> Invocation:
    """Return a finished invocation on the bill. See `billed_ms` for `mb_per_vcpu`."""
    duration = billed_ms(duration_ms, init_ms, memory_mb, mb_per_vcpu)
    init = billed_ms(0, init_ms, memory_mb, mb_per_vcpu) if init_ms else 0
    return Invocation(function, memory_mb, duration, init, usage)


def billed_ms(duration_ms: float, init_ms: float, memory_mb: int, mb_per_vcpu: int | None = None) -> int:
    """Milliseconds that Lambda bills for one invocation: run time plus start-up, rounded up to a whole millisecond.

    Pass None for `mb_per_vcpu` if the platform measured the durations. Pass the price list's `mb_per_vcpu` if they were
    measured here, on a whole core. A function with less memory has only the fraction ``memory_mb / mb_per_vcpu`` of
    a vCPU. Its durations are scaled by ``max(1, mb_per_vcpu / memory_mb)``. Waiting for storage is scaled too, and
    memory beyond one vCPU does not shorten durations, so the result is an upper bound. A local core counts as fast as a
    vCPU.

    Raises `ValueError` if a duration is negative or infinite, or the memory is 0 or less.
    """
    if memory_mb <= 0 or duration_ms < 0 or init_ms < 0:
        raise ValueError(f"cannot bill {duration_ms} ms + {init_ms} ms of start-up at {memory_mb} MB")
    (digits, units), (init_digits, init_units) = _as_ratio(duration_ms), _as_ratio(init_ms) if init_ms else (0, 1)
    ms_scaled, per_ms = digits * init_units + init_digits * units, units * init_units
    if mb_per_vcpu and mb_per_vcpu > memory_mb:
        ms_scaled, per_ms = ms_scaled * mb_per_vcpu, per_ms * memory_mb
    return -(-ms_scaled // per_ms)


def _as_ratio(value: float) -> tuple[int, int]:
    """The number that is printed for `value`, as a quotient of integers: 0.1 is one tenth, and not the binary fraction
    slightly above it. Raises `ValueError` when it is not finite."""
    whole, _, decimals = str(value).partition(".")
    if decimals.isdigit() or (not decimals and whole.isdigit()):
        return int(whole + decimals), 10 ** len(decimals)
    return Fraction(str(value)).as_integer_ratio()


def bill(
    meter: Meter,
    prices: Prices,
    architecture: Architecture = "arm",
    storage: StorageClass = "standard",
    note: str = NOTE,
) -> Bill:
    """Return the cost of `meter` at `prices`. Estimates, caps and receipts use this same pure function."""
    mb_ms = {name: charge_of(meter, name).mb_ms for name in BILLED}
    compute = {name: _gb_seconds(f"{name} compute", mb_ms[name], prices, architecture) for name in BILLED}
    actions = _action_lines(meter, prices, architecture)
    count = meter.extra_requests + sum(charge_of(meter, name).invocations for name in BILLED)
    count += sum(charge.count for charge in meter.actions.values())
    requests = line("lambda requests", count, 1, "request", prices.lambda_.requests_per_million, 1_000_000)
    storage_lines = _storage_lines(meter, prices, storage)
    logs = line("logs", meter.log_bytes, _GB, "GB", prices.cloudwatch.logs_gb, 1)
    transfer = line("data transfer out", meter.bytes_out, _GB, "GB", prices.transfer.out_gb, 1)
    lines = (*compute.values(), *actions, requests, *storage_lines, logs, transfer)
    without_compute = Bill(
        region=prices.region,
        prices_date=prices.date,
        architecture=architecture,
        storage_class=storage,
        note=note,
        lines=lines,
        total=total(lines),
        storage=total(storage_lines),
        requests=requests.dollars,
        coordinator=compute["coordinator"].dollars,
        actions=total(actions),
        logs=logs.dollars,
        transfer=transfer.dollars,
    )
    return msgspec.structs.replace(without_compute, **{name: compute[name].dollars for name in NAMES})


def charge_of(meter: Meter, function: str) -> Charge:
    """The use of a deployed function."""
    charge: Charge = getattr(meter, function)
    return charge


def _action_lines(meter: Meter, prices: Prices, architecture: Architecture) -> tuple[Line, ...]:
    charges = sorted(meter.actions.items())
    return tuple(_gb_seconds(call_line(name), charge.mb_ms, prices, architecture) for name, charge in charges)


def call_line(name: str) -> str:
    """The name of the line of a resource's actions."""
    return f"{name} actions"


def _gb_seconds(name: str, mb_ms: int, prices: Prices, architecture: Architecture) -> Line:
    return line(name, mb_ms, 1024 * 1000, "GB-s", prices.gb_second(architecture), 1)


def _storage_lines(meter: Meter, prices: Prices, storage: StorageClass) -> tuple[Line, ...]:
    s3, ledger = prices.s3_class(storage), prices.dynamodb
    halves = 2 * meter.read_units + meter.half_reads
    return (
        line("s3 puts", meter.puts, 1, "request", s3.put_per_thousand, 1000),
        line("s3 gets", meter.gets, 1, "request", s3.get_per_thousand, 1000),
        line("s3 lists", meter.lists, 1, "request", s3.put_per_thousand, 1000),
        line("s3 upload", meter.bytes_written, _GB, "GB", s3.upload_gb, 1),
        line("s3 retrieval", meter.bytes_read, _GB, "GB", s3.retrieval_gb, 1),
        line("ledger writes", meter.write_units, 1, "unit", ledger.write_units_per_million, 1_000_000),
        line("ledger reads", halves, 2, "unit", ledger.read_units_per_million, 1_000_000),
    )


def line(name: str, count: int, counts_per_unit: int, unit: str, price: Decimal, units_per_price: int) -> Line:
    """A line of `count` / `counts_per_unit` units at `price` per `units_per_price` units."""
    quantity = _EXACT.divide(Decimal(count), Decimal(counts_per_unit))
    unit_price = _EXACT.divide(price, Decimal(units_per_price))
    dollars = _EXACT.multiply(quantity, unit_price).normalize(_EXACT)
    return Line(name=name, quantity=quantity, unit=unit, unit_price=unit_price, dollars=dollars)


def total(lines: Iterable[Line]) -> Decimal:
    """The sum of `lines`."""
    return reduce(_EXACT.add, (line.dollars for line in lines), Decimal(0)).normalize(_EXACT)
