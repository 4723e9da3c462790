"""The target of an estimate: a back-end, where the coordinator runs, and how many functions run at once."""

from dataclasses import dataclass

from msgspec.structs import replace

from marless.backends.base import Backend
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.core.state import Plan, RunInputs, State
from marless.coordinator.errors import UserError
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.bill import INIT_LIMIT_MS
from marless.coordinator.pricing.prices import load_prices
from marless.estimation.forecast import forecast, forecast_detached
from marless.estimation.recording import Recording
from marless.estimation.service_times import ServiceTimes
from marless.estimation.virtual_functions import VirtualClock, VirtualLedger
from marless.functions.function_specs import NAMES

# The wait of a detached run after time-outs. A forecast loses no report.
GRACE_S = 30.0


@dataclass(frozen=True)
class Target:
    """`width` functions run at once. `detached`: the coordinator is a function too. `halves`: `balanced` gives halves
    of groups to its idle slots. The planner has weighed this against the cost."""

    backend: Backend
    width: int
    detached: bool = False
    halves: bool = False
    resizable: bool = False
    """Functions are deployed with the memory that a plan chooses."""

    @property
    def name(self) -> str:
        """The name for tables."""
        return self.backend.name + (", detached" if self.detached else "")

    def plan(self, config: RunConfig, inputs: RunInputs) -> Plan:
        """The plan of a run on the target that is given `inputs`."""
        is_deployed = self.backend.remote
        platform = Platform(
            concurrency=self.width,
            init_limit_ms=INIT_LIMIT_MS if is_deployed else 0,
            can_inline=not self.detached,
            cpu_scaling=self.backend.runs_here,
            grace_s=GRACE_S,
        )
        if is_deployed:
            on_lambda = platform.on_lambda(self.backend.latency_name)
            platform = replace(on_lambda, idle_slots_free=self.halves, sizes_fixed=not self.resizable)
        return Plan(
            run="estimate",
            config=config,
            code="",
            prices=load_prices(config.pricing.region),
            inputs=inputs,
            platform=platform,
        )

    def times(self, recorded_times: ServiceTimes, plan: Plan) -> ServiceTimes:
        """The durations of the recorded work there."""
        if (latency := self.backend.latency(plan.config.pricing.storage)) is None:
            return recorded_times
        memory_mb = {name: getattr(plan.config.functions, name).memory_mb for name in NAMES}
        mb_per_vcpu = None if self.backend.runs_here else plan.prices.lambda_.mb_per_vcpu
        return recorded_times.deployed(latency, memory_mb, mb_per_vcpu, self.detached)

    def forecast(self, plan: Plan, recording: Recording, seed: int = 0) -> State:
        """The last state of such a run. Raises `UserError` if it would fail."""
        times = self.times(recording.service_times, plan)
        latency = self.backend.latency(plan.config.pricing.storage)
        if self.detached and latency is not None:
            state = forecast_detached(plan, recording, times, latency, seed)
        else:
            # The coordinator's time between two waves is in `between_s`.
            ledger = VirtualLedger(VirtualClock(counts_coordinator=False), times.between_s)
            state = forecast(plan, recording, times, ledger, seed=seed).state
        if state.status == "failed":
            raise UserError(f"the run would fail in round {state.round + 1}: {state.reason}")
        return state
