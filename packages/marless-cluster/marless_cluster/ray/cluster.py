"""The connection to a Ray cluster, with messages about long waits."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from typing import Any

from marless_cluster.ray.head import LOCAL, trouble

_OLDEST = (2, 60)
_REMIND_S = 10.0


class RayError(Exception):
    """The cluster cannot be used. The message gives the reason and the remedy."""


def connect(address: str, say: Callable[[str], None]) -> tuple[Any, bool]:
    """The module `ray`, connected to the cluster at `address` (``HOST:PORT``, ``auto`` or ``local``), and whether this
    call has connected it. Raises `RayError`.

    `say` shows the cluster's address, because ``auto`` may find any cluster, and a line while joining takes long. Ray
    waits for a busy machine for minutes in silence.
    """
    ray = installed()
    if ray.is_initialized():
        return ray, False
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # other lines report the workers' ends
    with _reminded(address, say), _own_signals():
        if problem := trouble(address):
            raise RayError(problem)
        options = {}
        if address == LOCAL:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            options["include_dashboard"] = False
        try:
            # Its workers would import from this folder before Python's library. They go there themselves.
            with chdir("/"):
                ray.init(address=address, namespace="marless", log_to_driver=False, configure_logging=False, **options)
        except Exception as error:  # Ray raises bare ones, too
            reason = (str(error).strip() or type(error).__name__).partition("\n")[0]
            raise RayError(f"cannot join the Ray cluster ({address}): {reason}") from None
    nodes = [node for node in ray.nodes() if node["Alive"]]
    cores = sum(node["Resources"].get("CPU", 0.0) for node in nodes)
    head = ray.get_runtime_context().gcs_address
    say(f"joined the Ray cluster of the head at {head}, which has nodes: {len(nodes)}, cores: {cores:g}")
    return ray, True


def installed() -> Any:
    """The module `ray`. Raises `RayError` for a version that is too old, and `ImportError` without any."""
    import ray

    if tuple(int(part) for part in ray.__version__.split(".")[:2]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise RayError(f"Ray {ray.__version__} is too old; {oldest} is the first that fits: pip install -U ray")
    return ray


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes over SIGTERM, which must end a run in good order. Afterwards it is the run's again."""
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
    """Within the block a line every ten seconds names the awaited cluster."""
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
