"""Networks between programs of this machine: a slow relay that pauses and hangs up, and namespaces with cables that can
be cut."""

import asyncio
import random
import subprocess
import threading


class SlowRelay:
    """Passes on the bytes at its port after `delay_s`, each way, and pauses for `stall_s` in one of `one_in` pieces.

    So a program above TCP sees a network that loses packets. It sees a pause until the lost packet was sent again, and
    after too long a cut connection (`cut`). No packet is lost here.
    """

    def __init__(self, target_port, delay_s, one_in, stall_s):
        self._target, self._delay_s, self._one_in, self._stall_s = target_port, delay_s, one_in, stall_s
        self._draw, self._writers = random.Random(1), set()
        self.pieces = self.stalls = 0
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True).start()
        ready.wait()

    def cut(self):
        self._loop.call_soon_threadsafe(lambda: [writer.transport.abort() for writer in self._writers])

    async def _serve(self, ready):
        server = await asyncio.start_server(self._join, "0.0.0.0", 0)
        self._loop, self.port = asyncio.get_running_loop(), server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    async def _join(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        both = {writer, far_writer}
        self._writers |= both
        await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
        self._writers -= both

    async def _pass_on(self, reader, writer):
        queue = asyncio.Queue()
        sending = asyncio.create_task(self._send(queue, writer))
        try:
            while piece := await reader.read(1 << 14):
                queue.put_nowait((self._loop.time() + self._delay_s, piece))
        except OSError:
            pass
        queue.put_nowait((0.0, b""))
        await sending

    async def _send(self, queue, writer):
        try:
            while (entry := await queue.get())[1]:
                due, piece = entry
                self.pieces += 1
                if self._draw.randrange(self._one_in) == 0:
                    self.stalls += 1
                    due += self._stall_s
                await asyncio.sleep(due - self._loop.time())
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        writer.close()


class NoNamespaces(Exception):
    """This user, or this kernel, has none."""


class FarMachine:
    """A namespace with a separate network. `inside` goes in front of a command there, and `driver` is this machine's
    address seen from there."""

    def __init__(self, number):
        self._number, self._name = number, f"marless-far-{number}"
        self.driver, self.inside = f"10.231.{number}.1", ("ip", "netns", "exec", self._name)

    def __enter__(self):
        near, far = f"marless-n{self._number}", f"marless-f{self._number}"
        self._near = near
        try:
            _ip(f"netns add {self._name}")
            _ip(f"link add {near} type veth peer name {far} netns {self._name}")
            for words in (f"addr add {self.driver}/24 dev {near}", f"link set {near} up"):
                _ip(words)
            for words in ("link set lo up", f"addr add 10.231.{self._number}.2/24 dev {far}", f"link set {far} up"):
                _ip(f"-n {self._name} {words}")
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            raise NoNamespaces(str(error)) from error
        return self

    def __exit__(self, *_):
        try:
            _ip(f"netns del {self._name}")  # its cable goes with it
        except (OSError, subprocess.CalledProcessError):
            return

    def cut_cable(self):
        """From now on nothing arrives at either end, in silence."""
        _ip(f"link set {self._near} down")


def _ip(words):
    subprocess.run(["ip", *words.split()], check=True, capture_output=True)
