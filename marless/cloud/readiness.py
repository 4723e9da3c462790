"""The requirements of an AWS back-end on this machine. Checking is quick, even without a network."""

import threading
import time
from collections.abc import Callable
from importlib.util import find_spec

from marless.backends.base import Part
from marless.cloud.accounts import caller, region_of
from marless.coordinator.errors import UserError, one_line
from marless.infra.aws.clients import Cloud
from marless.infra.packaging.containers import ContainerFault, engine
from marless.infra.packaging.interpreters import interpreter
from marless.infra.packaging.package_build import PYTHON

# Checks have time-outs. This limit covers delays of the system itself, such as resolving a host name.
_PATIENCE_S = 8.0

Check = Callable[[], Part]


def aws_parts() -> tuple[Part, ...]:
    """Return the requirements of runs and deployments in an AWS account on this machine."""
    checks = {"region": _region, "credentials": _credentials, "pip": _pip, "containers": _containers, "python": _python}
    parts = _all(checks)
    return tuple(parts[name] for name in checks)


def _all(checks: dict[str, Check]) -> dict[str, Part]:
    """Run the checks in parallel. A check that exceeds its time is abandoned, so that the command continues."""
    parts: dict[str, Part] = {}
    threads = [
        threading.Thread(target=lambda name=name, check=check: parts.update({name: check()}), daemon=True)
        for name, check in checks.items()
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + _PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = {name: Part(name=name, ready=False, text=f"no answer within {_PATIENCE_S:g} s") for name in checks}
    return {**late, **parts}


def _region() -> Part:
    try:
        return Part(name="region", ready=True, text=region_of(None))
    except UserError as error:
        return Part(name="region", ready=False, text=one_line(error))


def _credentials() -> Part:
    # The service's address needs a region. Another check reports a missing region.
    try:
        region = region_of(None)
    except UserError:
        region = "us-east-1"
    try:
        who = caller(Cloud(region))
    except UserError as error:
        return Part(name="credentials", ready=False, text=one_line(error))
    return Part(name="credentials", ready=True, text=f"{who.arn.rpartition(':')[2]} in account {who.account}")


def _pip() -> Part:
    ready = find_spec("pip") is not None
    text = "installed" if ready else "missing in this Python, needed to package functions: python -m ensurepip"
    return Part(name="pip", ready=ready, text=text)


def _containers() -> Part:
    try:
        return Part(name="containers", ready=True, text=f"{engine()}, for plug-ins that need torch", needed=False)
    except ContainerFault as fault:
        return Part(name="containers", ready=False, text=f"{fault} (only for plug-ins that need torch)", needed=False)


def _python() -> Part:
    ready = interpreter(PYTHON) is not None
    text = (
        f"{PYTHON}, for byte code"
        if ready
        else f"without Python {PYTHON} functions go without byte code and start slower"
    )
    return Part(name="python", ready=ready, text=text, needed=False)
