"""Keeps worker processes of this machine dialled in to a driver."""

import asyncio
import secrets
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from marless.backends.badge import Badge
from marless.functions.encoding import Undecodable
from marless.functions.function_specs import FUNCTIONS
from marless.infra.local.processes.process_starters import Forker, Spawner, local_starter, worker_environment
from marless_cluster.remote.addresses import Address
from marless_cluster.remote.dialling import Away, Dialler
from marless_cluster.remote.faults import DialInError
from marless_cluster.remote.handshake import Introduction, Stream
from marless_cluster.remote.pulse import BEAT_S, Pulse
from marless_cluster.remote.served_process import ServedProcess

MODULES: Mapping[str, str] = {spec.name: spec.module for spec in FUNCTIONS}
"""The module that serves each function."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 5.0


def dial_in(
    address: Address,
    slots: int,
    token: bytes,
    badge: Badge,
    say: Callable[[str], None] = lambda line: None,
    patience_s: float = inf,
) -> None:
    """Serves `slots` tasks of a driver at once. Returns when the driver has been away for `patience_s`.

    Raises `DialInError` if a driver is missing at the address or refuses the workers. Main threads may use
    `WorkerAgent`, which can be stopped.
    """
    WorkerAgent(address, slots, token, badge, say, patience_s).run()


class WorkerAgent:
    """Keeps `slots` connections for the driver that it does not use yet, and serves each that it uses with a process,
    which ends with it.

    See `dial_in`. The driver has it work at `slots` tasks at most. Processes that have code in them which serves
    nothing else are kept idle meanwhile. With `tls` connections are encrypted. `marless.infra.local.task_pool.TaskPool`
    explains `modules`.
    """

    def __init__(
        self,
        address: Address,
        slots: int,
        token: bytes,
        badge: Badge,
        say: Callable[[str], None],
        patience_s: float = inf,
        tls: ssl.SSLContext | None = None,
        modules: Mapping[str, str] = MODULES,
        beat_s: float = BEAT_S,
    ) -> None:
        introduction = Introduction(socket.gethostname(), secrets.token_hex(8), badge, slots)
        self._address, self._slots = address, slots
        self._dialler = Dialler(address, token, introduction, tls)
        self._say, self._patience_s, self._modules, self._beat_s = say, patience_s, modules, beat_s
        self._starter: Forker | Spawner
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event
        self._is_stopped = False
        self._connected, self._last_line, self._has_served = 0, "", False
        self._away_since = time.monotonic()

    def run(self) -> bool:
        """Returns when the driver has been away for too long, or after `stop`. False: there was never a driver. Raises
        `DialInError`."""
        with tempfile.TemporaryDirectory(prefix="marless-worker-") as folder:
            log = Path(folder) / "zygote.log"
            self._starter = local_starter(worker_environment(1), self._modules.values(), log)
            try:
                self._starter.prepare()
                asyncio.run(self._serve_all())
            finally:
                self._starter.close()
        return self._has_served or self._is_stopped

    def stop(self) -> None:
        """Ends `run` soon. May be called in a signal's handler."""
        self._is_stopped = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve_all(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._is_stopped:  # before there was a loop
            return
        parts: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._keep_all_dialled_in()),
            asyncio.ensure_future(self._stop.wait()),
        ]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _keep_all_dialled_in(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._slots):
                    tasks.create_task(self._keep_dialled_in(tasks))
        except ExceptionGroup as faults:  # a fault of one of them affects all
            raise faults.exceptions[0] from None

    async def _keep_dialled_in(self, tasks: asyncio.TaskGroup) -> None:
        """Dials again whenever the driver uses the connection. Returns when it has been away for too long."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                stream = await self._dialler.dial()
            except (Away, DialInError) as error:
                if isinstance(error, DialInError) and not self._has_served:
                    raise
                self._tell(str(error))  # it passes: the driver has taken this worker before
                if not self._is_patient():
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            pause_s = _FIRST_PAUSE_S
            self._connected += 1
            self._has_served = True
            self._tell(f"serves the driver at {self._address}")
            is_used = asyncio.Event()
            tasks.create_task(self._serve(stream, is_used))
            await is_used.wait()

    def _is_patient(self) -> bool:
        return self._connected > 0 or time.monotonic() < self._away_since + self._patience_s

    async def _serve(self, stream: Stream, is_used: asyncio.Event) -> None:
        """Returns when the process or the connection has ended, and ends both."""
        pulse = Pulse(stream, self._beat_s)
        parts = [asyncio.ensure_future(part) for part in (self._serve_process(stream, pulse, is_used), pulse.beat())]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            for result in await asyncio.gather(*parts, return_exceptions=True):
                if isinstance(result, Exception):
                    self._tell(f"lost a process: {result}")
            is_used.set()
            self._connected -= 1
            self._away_since = time.monotonic()
            stream.writer.close()

    async def _serve_process(self, stream: Stream, pulse: Pulse, is_used: asyncio.Event) -> None:
        with suppress(EOFError, OSError, Undecodable):  # the driver has gone, or has no use for the process
            _, body = await pulse.read()
            is_used.set()
            with ServedProcess(self._starter) as process:
                await process.serve(stream, pulse, body)

    def _tell(self, line: str) -> None:
        """Once, until there is other news."""
        if line != self._last_line:
            self._last_line = line
            self._say(line)
