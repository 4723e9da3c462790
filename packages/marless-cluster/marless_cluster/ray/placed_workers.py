"""Workers that Ray places on the nodes of a cluster, from where they dial in.

Ray starts a process where there is room and says that it has ended. Nothing else of it is used. A run's tasks, objects
and state never pass through it. If a node is out of reach, Ray cannot say whether its call was served, and an object of
its store ends with its node.
"""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import marless
import marless_cluster
from marless.backends.badge import Badge
from marless.functions import kernel_variables
from marless.infra.local.processes.import_folders import add_last_folders, last_folders
from marless_cluster.remote.addresses import Address
from marless_cluster.remote.worker_agent import dial_in

# A driver that does not answer for so long has ended, and so may its workers.
_PATIENCE_S = 20.0
_LOOK_S = 0.5
_COLOURS = re.compile("\x1b\\[[0-9;]*m")
# A worker that ends by itself, or cannot be placed, is asked for again after this, and twice as long each time.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0


class Placed:
    """The actor: a process of Ray that keeps one worker dialled in."""

    def serve(self, address: Address, token: bytes, make_badge: Callable[[], Badge]) -> None:
        """Returns when the driver has gone. Raises `DialInError` when it does not take the worker."""
        with suppress(OSError):  # the driver's folder may be missing on this machine
            os.chdir(add_last_folders()[-1])
        dial_in(address, 1, token, make_badge(), patience_s=_PATIENCE_S)


class PlacedWorkers:
    """Has Ray place `count` workers, which dial in at `address` with the `token`.

    One that is lost is placed again, on whichever node has room by then. Workers without room wait in Ray until a node
    joins. `room` is a worker's share of its node, as options of Ray's actors: ``num_cpus``, and ``memory`` in bytes.
    `make_badge` makes a node's badge, there. `say` shows a line to the user.
    """

    def __init__(
        self,
        ray: Any,
        count: int,
        room: Mapping[str, Any],
        address: Address,
        token: bytes,
        make_badge: Callable[[], Badge],
        say: Callable[[str], None],
    ) -> None:
        self._ray, self._count, self._say = ray, count, say
        self._arguments = (address, token, make_badge)
        # Restarts and retries are ours: Ray would run a worker again without the driver's knowledge.
        self._actor = ray.remote(Placed).options(
            **room, max_restarts=0, max_task_retries=0, runtime_env={"env_vars": dict(_environment())}
        )
        self._workers: dict[Any, Any] = {}
        self._over = Event()
        self._thread = Thread(target=self._keep, name="workers on Ray", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends all workers. Idempotent."""
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        """Places workers, and replaces workers that end."""
        pause_s = _FIRST_PAUSE_S
        while not self._over.is_set():
            while len(self._workers) < self._count:
                worker = self._actor.remote()
                self._workers[worker.serve.remote(*self._arguments)] = worker
            finished_calls, _ = self._ray.wait(list(self._workers), timeout=_LOOK_S)
            for serving in finished_calls:
                worker = self._workers.pop(serving)
                if not self._over.is_set() and (reason := self._end_of(serving)):
                    self._say(f"a worker on Ray has ended: {reason}")
                self._ray.kill(worker, no_restart=True)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S) if finished_calls else _FIRST_PAUSE_S
            if finished_calls:
                self._over.wait(pause_s)
        for worker in self._workers.values():
            self._ray.kill(worker, no_restart=True)

    def _end_of(self, serving: Any) -> str:
        try:
            self._ray.get(serving)
        except self._ray.exceptions.RayTaskError as error:
            return str(error.cause)
        except self._ray.exceptions.RayError as error:
            lines = _COLOURS.sub("", str(error)).strip().splitlines()
            # If a worker could not begin, Ray reports its traceback. The last line is the cause.
            return lines[-1 if "ray::" in lines[0] else 0].strip() if lines else type(error).__name__
        return ""


def node_address(ray: Any) -> str:
    """This machine as the nodes of the cluster reach it."""
    return str(ray.util.get_node_ip_address())


def _environment() -> Mapping[str, str]:
    """Kernels must be the driver's kernels. Modules of its folder may be there on a node, too, and come last."""
    kernels = {name: os.environ[name] for name in kernel_variables.VARIABLES if name in os.environ}
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    programs = [Path(package.__file__ or "").parents[1].resolve() for package in (marless, marless_cluster)]
    # Sources of a checkout.
    folders += [str(path) for path in programs if path.name not in ("site-packages", "dist-packages")]
    return {**kernels, "PYTHONPATH": os.pathsep.join(folders), **last_folders([str(Path.cwd())])}
