"""Listens for workers of other machines, in a separate thread."""

import asyncio
import os
import socket
import ssl
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from threading import Event, Thread

from marless.backends.badge import Badge
from marless.functions.encoding import Undecodable
from marless.functions.system_errors import explain
from marless.infra.local.processes.process_starters import Pipes
from marless_cluster.remote.addresses import Address, listening_socket, watch_peer
from marless_cluster.remote.census import Census
from marless_cluster.remote.connection import Ends, RemoteChild, WorkerConnection
from marless_cluster.remote.descriptors import widen
from marless_cluster.remote.encryption import fault_of_peer
from marless_cluster.remote.faults import DialInError
from marless_cluster.remote.handshake import PATIENCE_S, Introduction, Stream, admit, greet
from marless_cluster.remote.pulse import BEAT_S, Pulse
from marless_cluster.remote.strangers import Strangers

_BUFFER = 1 << 20
# So long an agent with wrong answers is not asked, if there are others.
_LONGEST_REST_S = 60.0
# So many different lines are printed about strangers.
_MOST_TOLD_ONCE = 50


class Listener:
    """Takes in workers that hold the `token` and have the driver's badge, and keeps them for pools.

    With `tls` connections are encrypted. With `any_processor` a worker's processor may differ. A peer has `patience_s`
    to say who it is. Beats come each `beat_s`.

    Raises `DialInError` when it cannot listen at the address. Its thread reads and writes connections. Every public
    method may be called from any other thread.
    """

    def __init__(
        self,
        address: Address,
        token: bytes,
        badge: Badge,
        tls: ssl.SSLContext | None = None,
        any_processor: bool = False,
        patience_s: float = PATIENCE_S,
        beat_s: float = BEAT_S,
    ) -> None:
        self._socket = listening_socket(address)
        self.address = Address(address.host, self._socket.getsockname()[1])
        self._token, self._badge, self._tls, self.any_processor = token, badge, tls, any_processor
        self._patience_s, self._beat_s = patience_s, beat_s
        # By agent, only connected ones. It is replaced as a whole, because other threads read it.
        self._agents: Mapping[str, Agent] = {}
        self._lines = deque[str]()
        self._told_once = set[str]()
        self._census = Census()
        # Agents with other code than a run, and why they are refused.
        self._others: dict[str, str] = {}
        self._wakes: tuple[int, ...] = ()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._strangers = Strangers(patience_s)
        ready = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._listen(ready)), name="listener", daemon=True)
        self._thread.start()
        ready.wait()

    def agents(self) -> "Mapping[str, Agent]":
        """The connected agents."""
        return self._agents

    def take(self, names: Iterable[str], pipes: Pipes, log: int) -> RemoteChild:
        """A worker of the first of these agents that has one which no pool uses, for the pool with the other ends of
        the pipes. Raises `OSError` without one."""
        agents = self._agents
        for idle in (agents[name].idle for name in names if name in agents):
            while idle:
                with suppress(IndexError):  # it has left meanwhile
                    connection = idle.popleft()
                    if not connection.closed:
                        widen(*pipes[:2])
                        ends = Ends(*(_without_blocking(descriptor) for descriptor in (*pipes[:2], log)))
                        self._loop.call_soon_threadsafe(connection.begin, ends)
                        return RemoteChild(connection)
        raise OSError("no worker is connected")

    def refuse(self, name: str, reason: str) -> None:
        """Refuses this agent from now on, and ends its unused connections."""
        self._others[name] = reason
        agents = self._agents
        self._agents = {each: agent for each, agent in agents.items() if each != name}
        if name in agents:
            self.tell(f"refused a worker: {reason}")
            for connection in [*agents[name].idle]:
                self._loop.call_soon_threadsafe(connection.end)

    def watch(self, wake: int) -> None:
        """Writes into the pipe, which does not block, whenever workers have come or gone."""
        self._wakes = (*self._wakes, wake)

    def forget(self, wake: int) -> None:
        """Writes no more into this pipe, which may be closed afterwards."""
        self._wakes = tuple(each for each in self._wakes if each != wake)

    def lines(self) -> list[str]:
        """Return the news since the last call."""
        return [*self._census.news(self.slots_by_host()), *(self._lines.popleft() for _ in range(len(self._lines)))]

    def slots_by_host(self) -> Counter[str]:
        """Return the number of tasks that each machine serves at once."""
        slots = Counter[str]()
        for agent in self._agents.values():
            slots[agent.host] += agent.slots
        return slots

    def tell(self, line: str) -> None:
        """Add a line of the program that starts workers to the news."""
        with suppress(RuntimeError):  # its loop has ended by itself
            self._loop.call_soon_threadsafe(self._tell, line)

    def close(self) -> None:
        """Ends all connections. Idempotent."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # its loop has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    async def _listen(self, ready: Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        guests = set[asyncio.Task[None]]()
        accepting = asyncio.create_task(self._accept(guests))
        await self._stop.wait()
        for task in (accepting, *guests):
            task.cancel()
        await asyncio.gather(accepting, *guests, return_exceptions=True)
        self._socket.close()

    async def _accept(self, guests: "set[asyncio.Task[None]]") -> None:
        while True:
            try:
                connection, peer = await self._loop.sock_accept(self._socket)
            except OSError as error:  # no descriptors are left
                self._tell_once(f"cannot take in workers: {explain(error, '')}")
                await asyncio.sleep(1.0)
                continue
            await self._strangers.make_room()
            guest = asyncio.create_task(self._receive(connection, str(peer[0]).removeprefix("::ffff:")))
            guests.add(guest)
            guest.add_done_callback(guests.discard)

    async def _receive(self, connection: socket.socket, peer: str) -> None:
        if (admitted := await self._admitted(connection, peer)) is None:
            return
        stream, introduction = admitted
        worker = WorkerConnection(stream, introduction, Pulse(stream, self._beat_s))
        agent = self._agents.get(introduction.agent) or Agent(introduction.host, introduction.slots)
        self._agents = {**self._agents, introduction.agent: agent}
        agent.pulses = (*agent.pulses, worker.pulse)
        agent.idle.append(worker)
        self._wake()
        try:
            await worker.serve()
        except Undecodable as error:
            self._tell(f"ended the connection to {introduction.host}: {error}")
        finally:
            with suppress(ValueError):  # a pool has it
                agent.idle.remove(worker)
            agent.pulses = tuple(pulse for pulse in agent.pulses if pulse is not worker.pulse)
            if not agent.pulses:
                self._agents = {name: each for name, each in self._agents.items() if each is not agent}
            self._wake()

    async def _admitted(self, connection: socket.socket, peer: str) -> tuple[Stream, Introduction] | None:
        """Exchange the first words. Returns None unless the peer is a worker of this driver."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(None) as timeout:
                with self._strangers.enter(peer, timeout) as stranger:
                    stream = await self._stream(connection)
                    writer = stream.writer
                    greeting = await greet(stream)
                    stranger.begins()
                    door = self._token, self._badge, self.any_processor, self._others
                    return stream, await admit(stream, greeting, *door)
        except TimeoutError:
            self._refuse(peer, "it did not say in time who it is")
        except (DialInError, Undecodable) as error:
            self._refuse(peer, str(error))
        except ssl.SSLError as error:
            self._refuse(peer, fault_of_peer(error))
        except (EOFError, OSError):
            left = "it has left before it had said who it is"
            self._refuse(peer, left if writer or self._tls is None else fault_of_peer(None))
        if writer is None:
            connection.close()
        else:
            writer.close()
        return None

    async def _stream(self, connection: socket.socket) -> Stream:
        watch_peer(connection)
        reader = asyncio.StreamReader(limit=_BUFFER)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, connection, ssl=self._tls)
        transport.set_write_buffer_limits(_BUFFER)
        return Stream(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop))

    def _refuse(self, peer: str, reason: str) -> None:
        self._tell_once(f"refused a worker of {peer}: {reason}")

    def _tell_once(self, line: str) -> None:
        """A scan of ports must not fill the log."""
        if line not in self._told_once and len(self._told_once) < _MOST_TOLD_ONCE:
            self._told_once.add(line)
            is_last = len(self._told_once) == _MOST_TOLD_ONCE
            self._tell(f"{line} (and says no more of this kind)" if is_last else line)

    def _tell(self, line: str) -> None:
        self._lines.append(line)
        self._wake()

    def _wake(self) -> None:
        for wake in self._wakes:
            with suppress(OSError):  # it is full, so its reader will wake up
                os.write(wake, b"\0")


class Agent:
    """An agent with connections: its machine, how many `slots` it has, and which of its connections no pool uses."""

    def __init__(self, host: str, slots: int) -> None:
        self.host, self.slots = host, slots
        self.pulses: tuple[Pulse, ...] = ()
        """Of all its connections. It is replaced as a whole, because other threads read it."""
        self.idle = deque[WorkerConnection]()
        self.is_last_choice = False
        """Whether its last task timed out or gave a wrong answer."""
        self._faults, self._rests_until = 0, 0.0

    def fails(self, is_wrong: bool) -> None:
        """A task has timed out there, or has given a wrong answer. After several in a row it rests twice as long each
        time."""
        self.is_last_choice = True
        if is_wrong:
            self._faults += 1
            self._rests_until = time.monotonic() + min(2.0**self._faults, _LONGEST_REST_S)

    def succeeds(self) -> None:
        """A task has ended well there."""
        self.is_last_choice, self._faults, self._rests_until = False, 0, 0.0

    def rests(self) -> bool:
        """Return whether it is better to wait for another agent."""
        return time.monotonic() < self._rests_until

    def is_in_doubt(self) -> bool:
        """Return whether it is late with a beat."""
        return any(pulse.is_in_doubt for pulse in self.pulses)


def _without_blocking(descriptor: int) -> int:
    """A copy."""
    copy = os.dup(descriptor)
    os.set_blocking(copy, False)
    return copy
