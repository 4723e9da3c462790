"""The coordinator as a Lambda function: a shell around `coordinator.drive.detached_turn` that events wake.

An event names a run of this tenant; `{"sweep": true}` comes from the schedule and stands for every run that
goes on. What an event says is never trusted further than that: the ledger says what there is to do.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from coordinator.core import budget
from coordinator.core.state import Plan
from coordinator.drive import lease, run_manifest
from coordinator.drive.checkpoint import STATE, Unresumable
from coordinator.drive.detached_turn import CloudPorts, Turned, turn
from coordinator.drive.driver import Ports
from coordinator.drive.lease import Lease
from coordinator.drive.ledger_journal import Lines
from coordinator.drive.telling import Detached
from functions.contract import StaleVersion, StorageFault
from infra.aws.detached import Deployed, Outside, deployed
from infra.entry.tracing import traced
from infra.local.own_process import OwnTime

# What a lease says of a problem, at most.
_LONGEST_PROBLEM = 400


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
        if event.get("sweep"):
            # Of no run: it belongs to the deployment.
            self._time.waive()
            return self._sweep()
        try:
            return self._wake(event)
        finally:
            self._time.end()

    def _sweep(self) -> dict[str, Any]:
        """Every run is woken by an event of its own, on the coordinator that it began with."""
        runs, failed = self._deployed.live.items(""), []
        for run, coordinator in runs:
            try:
                self._deployed.wake(coordinator.decode(), run)
            except StorageFault as fault:  # the others are woken all the same
                self._log.error(str(fault), extra={"run": run})
                failed.append(run)
        if failed:
            raise StorageFault(f"could not wake {', '.join(failed)}")
        return {"woken": len(runs)}

    def _wake(self, event: dict[str, Any]) -> dict[str, Any]:
        run, tenant = event["run"], event["tenant"]
        self._log.set_correlation_id(run)
        if tenant != self._deployed.settings.tenant:
            raise ValueError(f"this deployment is of tenant {self._deployed.settings.tenant}, not of {tenant}")
        outside, started = self._deployed.outside(run), time.time()
        held, version = lease.read(outside.ledger)
        if held.holder != lease.CLOUD:
            if not held.taken("", time.time()):  # a process that holds it may be about to hand it over
                self._unlist(run, outside)
            return {"run": run, "left": held.holder or "nobody"}
        try:
            return self._turned(outside, held, version)
        except StaleVersion:
            # Another turn was quicker, and does what this one would have done.
            return {"run": run, "overtaken": True}
        except Exception as error:
            if held.stop or _for_good(error, outside, started):
                self._let_go(run, outside, version, f"{type(error).__name__}: {error}")
            raise

    def _turned(self, outside: Outside, held: Lease, version: int) -> dict[str, Any]:
        found = run_manifest.read(outside.ledger)
        if found is None:
            raise Unresumable("its ledger does not say what it was asked to be")
        platform = msgspec.structs.replace(found.platform, coordinator_mb=self._memory_mb)
        plan, sender = replace(found.plan(), platform=platform), self._deployed.sender(found.functions)
        ports = Ports(outside.storage, outside.ledger, sender, Lines(outside.ledger))
        around = CloudPorts(outside.completions, outside.heads, sender, time.time)
        # A lease has a few bytes, and no unit of reading is smaller than four kilobytes.
        loads = (len(msgspec.json.encode(found)), 0)
        detached = Detached(found.functions["coordinator"], self._time.take, loads)
        asking = not held.stop
        turned = turn(plan, ports, around, detached, asking, held.resume)
        after = turned.after
        self._tell(plan, turned)
        if after.status != "running" or not (asking or any(slot.waiting for slot in after.slots.values())):
            self._let_go(plan.run, outside, version, "")
        return {"run": plan.run, "round": after.round, "phase": after.phase, "status": after.status}

    def _let_go(self, run: str, outside: Outside, version: int, problem: str) -> None:
        """Lets go of the run as the lease was read; what was asked of the cloud since then keeps it."""
        problem = " ".join(problem.split())[:_LONGEST_PROBLEM]
        with suppress(StaleVersion):
            lease.write(outside.ledger, Lease(problem=problem), version)
            self._unlist(run, outside)

    def _unlist(self, run: str, outside: Outside) -> None:
        """Takes the run off the list of those that the sweep wakes; back again if it was handed over meanwhile."""
        record = self._deployed.live.load(run)
        self._deployed.live.remove(run)
        if record is not None and lease.read(outside.ledger)[0].holder == lease.CLOUD:
            with suppress(StaleVersion):
                self._deployed.live.commit(run, record.body, 0)

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


def _for_good(error: Exception, outside: Outside, started: float) -> bool:
    """Whether waking the run again would end in the same way, for ever: storage may answer again, and another turn may
    have taken away what this one, begun at `started`, had yet to read."""
    if isinstance(error, StorageFault):
        return False
    record = outside.ledger.load(STATE)
    return record is None or record.at < started


handler = traced(Coordinator(os.environ), os.environ)
