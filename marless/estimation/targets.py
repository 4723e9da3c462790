"""The target of an estimate: a back-end, where the coordinator runs, and how many functions run at once."""

from dataclasses import dataclass

from coordinator.config.schema import RunConfig
from coordinator.core.state import Plan, RunInputs, State
from coordinator.placement.coordination_cost import COORDINATOR_MB
from coordinator.pricing.bill import INIT_LIMIT_MS
from coordinator.pricing.latency import Latency
from coordinator.pricing.prices import load_prices
from functions.contract import Platform
from marless.backends.base import Backend
from marless.estimation.calibration import Calibration
from marless.estimation.platforms import DeployedFunctions, LocalWorkers
from marless.estimation.rehearsal import rehearse, rehearse_detached

# How long a detached run waits after time-outs; a rehearsal loses no report.
GRACE_S = 30.0


@dataclass(frozen=True)
class Target:
    """`width` functions run at once. `detached`: the coordinator is a function too."""

    backend: Backend
    width: int
    detached: bool = False

    @property
    def name(self) -> str:
        """The name for tables."""
        return self.backend.name + (", detached" if self.detached else "")

    def plan(self, config: RunConfig, inputs: RunInputs) -> Plan:
        """The plan of a run on the target that is given `inputs`."""
        deployed = self.backend.remote
        return Plan(
            run="estimate",
            config=config,
            code="",
            prices=load_prices(config.pricing.region),
            inputs=inputs,
            platform=Platform(
                concurrency=self.width,
                init_limit_ms=INIT_LIMIT_MS if deployed else 0,
                fixed_sizes=deployed,
                can_inline=not self.detached,
                cpu_scaling=self.backend.runs_here,
                grace_s=GRACE_S,
            ),
        )

    def rehearse(self, plan: Plan, calibration: Calibration) -> State:
        """The final state of such a run on the target."""
        latency = self.backend.latency(plan.config.pricing.storage)
        if latency is None:
            overhead_s = max(0.0, calibration.round_s - calibration.busy_s(self.width)) / 2
            return rehearse(plan, calibration, LocalWorkers(self.width, dict(calibration.init_ms), overhead_s))
        if self.detached:
            return rehearse_detached(plan, calibration, self._there(plan, latency))
        return rehearse(plan, calibration, self._there(plan, latency))

    def _there(self, plan: Plan, latency: Latency) -> DeployedFunctions:
        sizes = plan.config.functions
        memory_mb = {
            "actor": sizes.actor.memory_mb,
            "learner": sizes.learner.memory_mb,
            "evaluator": sizes.evaluator.memory_mb,
            "coordinator": COORDINATOR_MB,
        }
        mb_per_vcpu = None if plan.platform.cpu_scaling else plan.prices.lambda_.mb_per_vcpu
        wave_s, report_ms = (
            (latency.detached_wave_s, latency.ledger) if self.detached else (latency.attended_wave_s, 0.0)
        )
        return DeployedFunctions(latency, plan.platform.concurrency, memory_mb, mb_per_vcpu, wave_s, report_ms)
