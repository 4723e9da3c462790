"""Breakdown of a round's time: one run of the whole system in this process, with its functions' milliseconds summed."""

import argparse
import json
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks.training import UNEVALUATED
from marless.backends import local
from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.state import Plan
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Invoker, Ports
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import load_prices
from marless.functions.messages.exchange import Report
from marless.functions.messages.order import Attempt
from marless.reports.journal import JsonLines, read


class Metered:
    """An invoker that sums the milliseconds of sampling and learning after round 1, which starts the workers."""

    def __init__(self, inner: Invoker) -> None:
        self._inner = inner
        self.busy_ms: defaultdict[str, float] = defaultdict(float)

    def invoke(self, attempt: Attempt) -> None:
        self._inner.invoke(attempt)

    def wait(self, timeout_s: float) -> list[Report]:
        reports = self._inner.wait(timeout_s)
        for report in reports:
            _, round_, work = report.id.split("/", 2)
            if int(round_) > 1 and work.startswith(("sample", "learn")):
                self.busy_ms[report.function] += report.duration_ms
        return reports

    def close(self) -> None:
        self._inner.close()


def milliseconds(folder: Path, workers: int, config: RunConfig) -> dict[str, float]:
    """Milliseconds per round: of the whole `round`, and in the `actor` and `learner` functions.

    A function's time includes reading and writing its objects. With one worker, the rest is the coordinator's.
    """
    backend = local.BACKEND.open(folder, workers)
    try:
        invoker = Metered(backend.invoker)
        journal = JsonLines(folder / "metrics.jsonl")
        plan = Plan(
            "benchmark", config, "benchmark", load_prices(), Platform(init_limit_ms=backend.platform.init_limit_ms)
        )
        driver = Driver(plan, Ports(backend.storage, backend.ledger, invoker, journal))
        driver.begin()
        while driver.step():
            pass
        if driver.state.status != "finished":
            raise RuntimeError(f"the run ended as {driver.state.status}: {driver.state.reason}")
    finally:
        backend.close()
    lines = read(folder / "metrics.jsonl")
    rounds = len(lines) - 1
    whole = (lines[-1].seconds - lines[0].seconds) * 1000 / rounds
    return {"round": whole, **{function: total / rounds for function, total in invoker.busy_ms.items()}}


def main() -> None:
    """The command line: prints one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.system", description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    args = parser.parse_args()
    config = load(None, [*UNEVALUATED, *args.overrides])
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(milliseconds(Path(folder), args.workers, config)))


if __name__ == "__main__":
    main()
