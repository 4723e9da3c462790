"""What the bytes of a run depend on, as drivers and workers of other machines compare it."""

from collections.abc import Sequence
from importlib.metadata import version

from msgspec.structs import replace

from coordinator.config.exactness import is_exact
from coordinator.config.schema import RunConfig
from functions.native.kernels import are_built
from infra.remote.handshake import Badge
from marless.reports import provenance


def badge() -> Badge:
    """That of this interpreter on this machine."""
    program = f"marless {version('marless')} (code {provenance.code_sha256()[:12]})"
    return Badge(f"{program}, {provenance.libraries()}", provenance.machine(), are_built())


def driver_badge(runs: Sequence[RunConfig]) -> Badge:
    """What the runs that are driven here ask of their workers."""
    kernels = any(run.algorithm.engine == "native" for run in runs)
    return replace(
        badge(), processor="" if runs and all(map(is_exact, runs)) else provenance.machine(), kernels=kernels
    )
