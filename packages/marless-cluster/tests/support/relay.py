"""A relay between a driver and its workers that keeps connections open, like a tunnel, even if bytes are lost."""

import random
import socket
import threading
from contextlib import suppress

from stand_in_agents import flipped


class Relay:
    """Passes on bytes to its `port`, unless "up" (to the driver) or "down" (from it) is `frozen`.

    `flips` has the number of a byte per way that is changed once. If `one_in` is not 0, about one in so many does."""

    def __init__(self, target_port, seed=1):
        self._target, self.frozen, self.flips = target_port, set(), {}
        self.one_in, self.changed, self._draw = 0, 0, random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            here, _ = self._listener.accept()
            try:
                there = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # nobody listens yet
                here.close()
                continue
            for ends in ((here, there, "up"), (there, here, "down")):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source, target, way):
        passed = 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if way in self.frozen:
                    continue
                place = self.flips.get(way, -1) - passed
                passed += len(data)
                if 0 <= place < len(data):
                    del self.flips[way]
                    data = data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
                if self.one_in and self._draw.random() < len(data) / self.one_in:
                    self.changed += 1
                    data = flipped(data, self._draw)
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
