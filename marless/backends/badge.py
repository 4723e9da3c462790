"""The origins of a run's bytes, as drivers and workers of other machines compare them."""

from collections.abc import Iterable
from importlib.metadata import version

import msgspec
from msgspec.structs import replace

from marless.coordinator.config.exactness import is_exact
from marless.coordinator.config.schema import RunConfig
from marless.functions.native.kernels import are_built
from marless.reports import provenance


class Badge(msgspec.Struct, frozen=True):
    """The origins of a run's bytes: the `program` with interpreter and libraries, and the `processor` that selects
    matrix kernels.

    `processor` is '' at a driver if any suits its runs. `kernels`: whether a worker has kernels of the engine native,
    or a driver's runs need them.
    """

    program: str
    processor: str
    kernels: bool = False


def badge() -> Badge:
    """That of this interpreter on this machine."""
    program = f"marless {version('marless')} (code {provenance.code_sha256()[:12]})"
    return Badge(f"{program}, {provenance.libraries()}", provenance.machine(), are_built())


def driver_badge(runs: Iterable[RunConfig], more_follow: bool = False) -> Badge:
    """Return the requirements of the runs driven here on their workers, which stay for later runs with other
    settings."""
    local_badge, runs = badge(), [*runs]
    kernels = any(run.algorithm.engine == "native" for run in runs) or (more_follow and local_badge.kernels)
    any_processor = bool(runs) and not more_follow and all(map(is_exact, runs))
    return replace(local_badge, processor="" if any_processor else local_badge.processor, kernels=kernels)
