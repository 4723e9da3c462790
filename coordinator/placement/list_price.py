"""The cost of a round at list prices in the configured placement, by counts alone.

Nothing here is measured. `marless.coordinator.placement.layout` counts requests and commits, and compute follows from
agents and steps at a nominal speed. So rules that change weights may read these prices. Unit costs are floats, for
hundreds of candidate placements. `bill.bill` computes the exact costs.
"""

from collections.abc import Callable
from typing import NamedTuple, Self

from marless.coordinator.placement.layout import Layout
from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS, PLACEMENTS, RoundPlacement
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
    """Dollars per GB-second, request, byte and so on. `mb_per_vcpu` comes from the price list."""

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


# One step of one agent, sampled and learned from, on a whole vCPU: `packed` takes 9.6 us with three agents and the
# default networks (docs/results/benchmarks.md). A nominal speed: networks of other sizes have the same price.
STEP_MS = 0.01
# A run's item in the ledger, nominal.
ITEM_BYTES = 4096


class RoundPrice(NamedTuple):
    """`overhead`: the rest of a round in prices of one rollout. `rollout`: dollars of one rollout."""

    overhead: float
    rollout: float = 0.0

    def dollars(self, rollouts: int) -> float:
        """Dollars of a round of so many rollouts."""
        return (self.overhead + rollouts) * self.rollout


class PricedPlacement(NamedTuple):
    """The placement that a price is for: `most` is the most rollouts, the other fields follow `placement`."""

    rule: str
    rollouts_per_invocation: int
    inline_objects: bool
    most: int


def list_price(priced: PricedPlacement, layout: Callable[[int], Layout], tariff: Tariff) -> RoundPrice:
    """Return the price of a round in the placement, or for `auto` in the cheapest one for the most rollouts.

    `layout` takes a number of rollouts. A round of I rollouts costs about ``rest + I * rollout``: exactly where every
    invocation samples equally many. Where the rollouts of a round are one invocation, one more costs its steps only.
    """
    if PLACEMENTS[priced.rule].planned:
        # The choices of `auto`, with objects inside messages and all rollouts in one invocation.
        candidates = [_placement(PricedPlacement(rule, priced.most, True, priced.most)) for rule in LEARNER_PLACEMENTS]
    else:
        candidates = [_placement(priced)]
    most = max(2, priced.most)
    layouts = [layout(1), layout(most)]
    lines = [[_dollars(each, placement, tariff) for each in layouts] for placement in candidates]
    one, all_of_them = min(lines, key=lambda line: line[1])
    rollout = (all_of_them - one) / (most - 1)
    return RoundPrice((one - rollout) / rollout, rollout)


def _placement(priced: PricedPlacement) -> RoundPlacement:
    return RoundPlacement(
        rule=priced.rule,
        rollouts_per_invocation=priced.rollouts_per_invocation,
        inline_objects=priced.inline_objects,
        checkpoint_every=1,
        memory_mb={},
    )


def _dollars(layout: Layout, placement: RoundPlacement, tariff: Tariff) -> float:
    workload = layout.workload
    ms = STEP_MS * workload.rollouts * workload.rollout_steps * workload.agents
    return sum(tariff.parts(layout.operations(placement))) + tariff.seconds(tariff.mb_per_vcpu * ms)
