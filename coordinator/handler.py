"""The coordinator as a Lambda function: a shell around `coordinator.turn` that events wake.

An event names a run of this tenant; `{"sweep": true}` comes from the schedule and stands for every run that
goes on. What an event says is never trusted further than that: the ledger says what there is to do.
"""

import os
import time
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from coordinator import budget, charter, lease
from coordinator.charter import Charter
from coordinator.lines import Lines
from coordinator.loop import Ports, Unresumable
from coordinator.state import Plan
from coordinator.telling import Detached
from coordinator.turn import Surroundings, Turned, turn
from functions.contract import CorruptObject, StaleVersion
from infra.detached import Deployed, Outside, deployed
from infra.own_process import OwnTime


class Coordinator:
    """The Lambda handler; one for each execution environment."""

    def __init__(self, surroundings: Mapping[str, str]) -> None:
        self._deployed: Deployed = deployed(surroundings)
        self._memory_mb = int(surroundings["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"])
        self._log, self._metrics = Logger(), Metrics()
        self._metrics.set_default_dimensions(Tenant=self._deployed.settings.tenant)
        self._time = OwnTime()

    def __call__(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Wakes every run that goes on, or takes one as far as it goes; says what it did, for the log."""
        self._time.begin()
        try:
            return self._sweep() if event.get("sweep") else self._wake(event)
        finally:
            self._time.end()

    def _sweep(self) -> dict[str, Any]:
        """Every run is woken by an event of its own, on the coordinator that it began with."""
        runs = self._deployed.live.items("")
        for run, coordinator in runs:
            self._deployed.wake(coordinator.decode(), run)
        return {"woken": len(runs)}

    def _wake(self, event: dict[str, Any]) -> dict[str, Any]:
        run, tenant = event["run"], event["tenant"]
        self._log.set_correlation_id(run)
        if tenant != self._deployed.settings.tenant:
            raise ValueError(f"this deployment is of tenant {self._deployed.settings.tenant}, not of {tenant}")
        outside = self._deployed.outside(run)
        found, (held, _) = charter.read(outside.ledger), lease.read(outside.ledger)
        if found is None or held.holder != lease.CLOUD:
            self._deployed.live.remove(run)
            return {"run": run, "left": held.holder or "nobody"}
        try:
            record = outside.ledger.load("state") if "resume" in event else None
            resume = record is not None and record.version == event["resume"]
            return self._turned(found, outside, not held.stop, resume)
        except StaleVersion:
            # Another turn was quicker, and does what this one would have done.
            return {"run": run, "overtaken": True}
        except (Unresumable, CorruptObject) as error:
            self._let_go(run, outside, str(error))
            raise

    def _turned(self, found: Charter, outside: Outside, asking: bool, resume: bool) -> dict[str, Any]:
        plan, sender = found.plan(), self._deployed.sender(found.functions)
        ports = Ports(outside.storage, outside.ledger, sender, Lines(outside.ledger))
        around = Surroundings(outside.completions, outside.heads, sender, time.time, found.grace_s)
        detached = Detached(found.functions["coordinator"], self._memory_mb, self._time.take)
        turned = turn(plan, ports, around, detached, asking, resume)
        after = turned.after
        self._tell(plan, turned)
        if after.status != "running" or not (asking or any(slot.waiting for slot in after.slots.values())):
            self._let_go(plan.run, outside, "")
        return {"run": plan.run, "round": after.round, "phase": after.phase, "status": after.status}

    def _let_go(self, run: str, outside: Outside, problem: str) -> None:
        lease.release(outside.ledger, lease.CLOUD, problem)
        self._deployed.live.remove(run)

    def _tell(self, plan: Plan, turned: Turned) -> None:
        """Money and rounds as metrics, for the dashboard and the alarm; a turn that changed nothing says nothing."""
        before, after = turned
        spent = budget.dollars(plan, after.meter) - (budget.dollars(plan, before.meter) if before else 0)
        rounds = after.round - (before.round if before else 0)
        if not spent:
            return
        self._metrics.add_metric(name="Spend", unit=MetricUnit.NoUnit, value=float(spent))
        self._metrics.add_metric(name="Rounds", unit=MetricUnit.Count, value=rounds)
        self._metrics.flush_metrics()
        self._log.info("turn", extra={"round": after.round, "phase": after.phase, "status": after.status})


handler = Coordinator(os.environ)
