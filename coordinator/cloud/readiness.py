"""What an AWS back-end needs of this machine; looking is quick, with or without a network."""

import threading
import time
from collections.abc import Callable
from importlib.util import find_spec

from coordinator.backends.base import Part
from coordinator.cloud.accounts import caller, region_of
from coordinator.errors import UserError, one_line
from infra.aws.clients import Cloud
from infra.packaging.containers import ContainerFault, engine
from infra.packaging.interpreters import interpreter
from infra.packaging.packages import PYTHON

# Looks have limits of their own; this is for what the system itself holds up, such as the name of a host.
_PATIENCE_S = 8.0


Look = Callable[[], Part]


def aws_parts() -> tuple[Part, ...]:
    """What runs and deployments in an AWS account need of this machine."""
    looks = {"region": _region, "credentials": _credentials, "pip": _pip, "containers": _containers, "python": _python}
    found = _all(looks)
    return tuple(found[name] for name in looks)


def _all(looks: dict[str, Look]) -> dict[str, Part]:
    """What they find, at once; a look that does not end is given up, and does not keep the command from ending."""
    found: dict[str, Part] = {}
    threads = [
        threading.Thread(target=lambda name=name, look=look: found.update({name: look()}), daemon=True)
        for name, look in looks.items()
    ]
    for thread in threads:
        thread.start()
    until = time.monotonic() + _PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = {name: Part(name=name, ready=False, text=f"no answer within {_PATIENCE_S:g} s") for name in looks}
    return {**late, **found}


def _region() -> Part:
    try:
        return Part(name="region", ready=True, text=region_of(None))
    except UserError as error:
        return Part(name="region", ready=False, text=one_line(error))


def _credentials() -> Part:
    # The address of the service needs a region; who has chosen none is told so beside this.
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
    text = "installed" if ready else "this Python has none; it gathers the functions' packages: python -m ensurepip"
    return Part(name="pip", ready=ready, text=text)


def _containers() -> Part:
    try:
        return Part(name="containers", ready=True, text=engine())
    except ContainerFault as fault:
        return Part(name="containers", ready=False, text=str(fault))


def _python() -> Part:
    ready = interpreter(PYTHON) is not None
    text = (
        f"{PYTHON}, for byte code"
        if ready
        else f"without Python {PYTHON} functions go without byte code and start slower"
    )
    return Part(name="python", ready=ready, text=text, needed=False)
