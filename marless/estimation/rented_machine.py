"""The price of a run on one rented machine, to compare with the bill of functions."""

from typing import NamedTuple

from marless.coordinator.pricing.prices import Prices

INSTANCE, VCPUS = "c6a.large", 2
# Linux instances are billed by the second, and at least for a minute (Amazon EC2 pricing, "On-Demand").
_LEAST_S = 60.0
# An assumption: from the start of billing until a prepared image runs its first command.
_BOOT_S = 40.0


class RentedMachine(NamedTuple):
    """Machines of the type `INSTANCE` that together have `vcpus` virtual processors, two in each."""

    vcpus: int
    hourly: float
    """Dollars per hour of all of them."""

    def busy_dollars(self, seconds: float) -> float:
        """The share of a run of so many seconds, if the machine works all the time and for other runs too."""
        return seconds / 3600 * self.hourly

    def dollars(self, seconds: float) -> float:
        """The price of a machine that starts for a run of so many seconds, and ends with it."""
        return self.busy_dollars(max(_LEAST_S, _BOOT_S + seconds))


def rented_machine(prices: Prices, workers: int) -> RentedMachine:
    """A rented machine with a virtual processor for each worker."""
    machines = -(-workers // VCPUS)
    return RentedMachine(machines * VCPUS, machines * float(prices.ec2[INSTANCE]))
