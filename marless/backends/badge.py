"""What the bytes of a run depend on, as drivers and workers of other machines compare it."""

from collections.abc import Iterable
from importlib.metadata import version

from msgspec.structs import replace

from marless.coordinator.config.exactness import is_exact
from marless.coordinator.config.schema import RunConfig
from marless.functions.native.kernels import are_built
from marless.infra.remote.handshake import Badge
from marless.reports import provenance


def badge() -> Badge:
    """That of this interpreter on this machine."""
    program = f"marless {version('marless')} (code {provenance.code_sha256()[:12]})"
    return Badge(f"{program}, {provenance.libraries()}", provenance.machine(), are_built())


def driver_badge(runs: Iterable[RunConfig], more_follow: bool = False) -> Badge:
    """What the runs that are driven here ask of their workers, who stay for those with other settings that may
    follow."""
    local_badge, runs = badge(), [*runs]
    kernels = any(run.algorithm.engine == "native" for run in runs) or (more_follow and local_badge.kernels)
    any_processor = bool(runs) and not more_follow and all(map(is_exact, runs))
    return replace(local_badge, processor="" if any_processor else local_badge.processor, kernels=kernels)
