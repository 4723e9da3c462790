"""Unit costs in floats, for hundreds of candidate placements; `bill.bill` computes the exact ones."""

from typing import NamedTuple, Self

from marless.coordinator.pricing.bill import Meter, charge_of
from marless.coordinator.pricing.prices import Architecture, Prices, StorageClass
from marless.functions.function_specs import BILLED


class Parts(NamedTuple):
    """Dollars. `beside`: logs, and data that leaves the region."""

    compute: float = 0.0
    requests: float = 0.0
    storage: float = 0.0
    ledger: float = 0.0
    beside: float = 0.0


class Tariff(NamedTuple):
    """Dollars per GB-second, request, byte and so on; `mb_per_vcpu` as in the price list."""

    gb_second: float
    request: float
    put: float
    get: float
    byte_written: float
    byte_read: float
    write_unit: float
    read_unit: float
    logged_byte: float
    byte_out: float
    mb_per_vcpu: int

    @classmethod
    def of(cls, prices: Prices, architecture: Architecture = "arm", storage: StorageClass = "standard") -> Self:
        """The tariff of a price list."""
        s3 = prices.s3_class(storage)
        return cls(
            gb_second=float(prices.gb_second(architecture)),
            request=float(prices.lambda_.requests_per_million) / 1e6,
            put=float(s3.put_per_thousand) / 1e3,
            get=float(s3.get_per_thousand) / 1e3,
            byte_written=float(s3.upload_gb) / 2**30,
            byte_read=float(s3.retrieval_gb) / 2**30,
            write_unit=float(prices.dynamodb.write_units_per_million) / 1e6,
            read_unit=float(prices.dynamodb.read_units_per_million) / 1e6,
            logged_byte=float(prices.cloudwatch.logs_gb) / 2**30,
            byte_out=float(prices.transfer.out_gb) / 2**30,
            mb_per_vcpu=prices.lambda_.mb_per_vcpu,
        )

    def seconds(self, mb_ms: float) -> float:
        """Dollars for compute of `mb_ms` megabytes times milliseconds."""
        return mb_ms / 1024 / 1000 * self.gb_second

    def parts(self, meter: Meter) -> Parts:
        """The cost of a meter."""
        charges = [charge_of(meter, name) for name in BILLED]
        return Parts(
            compute=self.seconds(sum(charge.mb_ms for charge in charges)),
            requests=(meter.extra_requests + sum(charge.invocations for charge in charges)) * self.request,
            storage=(meter.puts + meter.lists) * self.put
            + meter.gets * self.get
            + meter.bytes_written * self.byte_written
            + meter.bytes_read * self.byte_read,
            ledger=meter.write_units * self.write_unit + (meter.read_units + meter.half_reads / 2) * self.read_unit,
            beside=meter.log_bytes * self.logged_byte + meter.bytes_out * self.byte_out,
        )
