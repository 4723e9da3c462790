"""How the tasks of a detached run are told where to report, and how the next driver knows what they were told."""

from collections.abc import Callable
from dataclasses import dataclass

from coordinator.core.state import State
from functions.contract import ReportTo


@dataclass(frozen=True)
class Detached:
    """What a driver needs to know that lives no longer than one turn of a function.

    `coordinator` is the function to wake when all that was asked has ended; `worked` gives, once a turn, the
    milliseconds of work and of start-up that have not been billed yet, and zeros after that. `loads` are the bytes of
    what was read of the ledger before the driver was made.
    """

    coordinator: str
    worked: Callable[[], tuple[float, float]]
    loads: tuple[int, ...] = ()


def asked(state: State) -> list[str]:
    """The works that are waited for, in the order in which they count themselves."""
    return sorted(work for work, slot in state.slots.items() if slot.waiting)


def telling(state: State, ask: int, detached: Detached) -> dict[str, ReportTo]:
    """Where each of them has to report when they were asked with commit number `ask`."""
    works = asked(state)
    return {
        work: ReportTo(ask=ask, index=index, count=len(works), coordinator=detached.coordinator)
        for index, work in enumerate(works)
    }
