"""Attempts with any bytes as their request, for functions of tests."""

from marless.functions.messages.order import Address, Attempt, Order


class OpaqueAttempt(Attempt, frozen=True):
    """An attempt with other bytes than its order."""

    encoded: bytes

    def body(self):
        return self.encoded


def attempt_of(function, id, number, body, timeout_s):
    address = Address(id=id, run="run", round=0, output=id, seed=0)
    return OpaqueAttempt(function, Order(address=address, attempt=number, timeout_s=timeout_s), body)
