"""The connection to a Ray cluster, which says what it waits for."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from functions.system_errors import explain

ADDRESS = "RAY_ADDRESS"
"""The variable by which Ray itself is told where a head is."""
HERE = ("auto", "local")
"""What stands for an address: the head of this machine, and a new one of this process."""
_OLDEST = (2, 60)
_ADVICE = "'ray start --head' starts one, --address names another; where it asks for a token: RAY_AUTH_MODE=token"
_KNOCK_S = 5.0
# An interpreter starts and imports Ray on a machine that may be busy, and the head may be, too.
_HEALTH_S = 60.0
_REMIND_S = 10.0


class RayError(Exception):
    """The cluster cannot be used; the message says why and what to do."""


def connect(address: str, say: Callable[[str], None]) -> tuple[Any, bool]:
    """The module `ray`, connected to the cluster at `address` (``HOST:PORT``, ``auto`` or ``local``), and whether this
    call has connected it. Raises `RayError`.

    `say` shows a line while it takes long: Ray waits for a busy machine for minutes and says nothing.
    """
    ray = installed()
    if ray.is_initialized():
        return ray, False
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # what becomes of workers is said in our words
    with _reminded(address, say), _own_signals():
        if address not in HERE and (problem := trouble(address)):
            raise RayError(problem)
        options = {}
        if address == "local":
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            options["include_dashboard"] = False
        try:
            ray.init(address=address, namespace="marless", log_to_driver=False, configure_logging=False, **options)
        except Exception as error:  # Ray raises bare ones, too
            reason = (str(error).strip() or type(error).__name__).partition("\n")[0]
            raise RayError(f"cannot join a Ray cluster ({address}): {reason} ({_ADVICE})") from None
    return ray, True


def installed() -> Any:
    """The module `ray`; raises `RayError` for a version that is too old, and `ImportError` without any."""
    import ray

    if tuple(int(part) for part in ray.__version__.split(".")[:2]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise RayError(f"Ray {ray.__version__} is too old; {oldest} is the first that fits: pip install -U ray")
    return ray


def trouble(address: str) -> str:
    """Why there is no head at the address, in one line; '' where one answers. Ray itself dials such an address for
    minutes."""
    if "://" in address:
        return f"{address} is for Ray's client; start marless on a node of the cluster, with {ADDRESS}=HOST:PORT"
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and int(port) < 1 << 16):
        return f"{address[:100]!r} is no address of a Ray head: HOST:PORT, auto or local"
    try:
        socket.create_connection((host, int(port)), _KNOCK_S).close()
    except OSError as error:
        return f"no Ray head answers at {address}: {explain(error, '')}"
    command = (sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address)
    try:
        check = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_HEALTH_S, check=False)
    except subprocess.TimeoutExpired:
        return f"what answers at {address} did not say within {_HEALTH_S:g} s that it is a Ray head"
    return "" if check.returncode == 0 else f"what answers at {address} is no Ray head, or one of another version"


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes over SIGTERM, at which a run ends in good order; afterwards it is the run's again."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


@contextmanager
def _reminded(address: str, say: Callable[[str], None]) -> Iterator[None]:
    """Within the block a line says every ten seconds what is waited for."""
    began, over = time.monotonic(), threading.Event()

    def remind() -> None:
        while not over.wait(_REMIND_S):
            load, _, _ = os.getloadavg()
            waited_s = time.monotonic() - began
            say(f"waits for Ray ({address}) since {waited_s:.0f} s; the load of this machine is {load:.0f}")

    thread = threading.Thread(target=remind, name="ray reminder", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
