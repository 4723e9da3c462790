"""A listener's agents inside the process of a test: threads that speak as worker processes do, in frames that the test
may change."""

import os
import random
import threading
from collections import Counter, deque

from marless.functions.encoding import MessagePackDecoder
from marless.infra.local.pipe_messages import Inbox, ObjectStored, Offer, TaskCall, checked_header
from marless_cluster.remote.listener import Agent


class Connection:
    pid = 0

    def __init__(self, place, agent):
        self.place, self.agent, self.is_alive = place, agent, True

    def alive(self):
        return self.is_alive

    def end(self):
        return None


class StandIns:
    """In place of a `Listener`: one agent for each of the `scripts`, which give the frames that answer a call."""

    any_processor, address = False, "nowhere"

    def __init__(self, *scripts):
        self._scripts = {f"agent{number}": script for number, script in enumerate(scripts)}
        self._agents = {name: Agent(name, 1) for name in self._scripts}
        self.calls = Counter()
        for agent in self._agents.values():
            agent.idle = deque([None])  # there is always another connection

    def agents(self):
        return self._agents

    def take(self, names, pipes, log):
        name = next(iter(names))
        requests, replies = (os.dup(descriptor) for descriptor in pipes[:2])
        for descriptor in (requests, replies):
            os.set_blocking(descriptor, True)
        connection = Connection(name, name)
        threading.Thread(target=self._serve, args=(name, requests, replies, connection), daemon=True).start()
        return connection

    def slots_by_host(self):
        return Counter({name: agent.slots for name, agent in self._agents.items()})

    def watch(self, wake):
        pass

    forget = watch

    def lines(self):
        return []

    def _serve(self, name, requests, replies, connection):
        inbox, decoder = Inbox(requests), MessagePackDecoder(TaskCall | Offer | ObjectStored)
        try:
            while inbox.fill():
                for header, body in inbox.frames():
                    if isinstance(call := checked_header(decoder, header, body), TaskCall):
                        self.calls[name] += 1
                        for part in self._scripts[name](call, body):
                            os.write(replies, part)
        except OSError:  # the pool has hung up
            pass
        finally:
            connection.is_alive = False
            for descriptor in (requests, replies):
                os.close(descriptor)


def flipped(data, draw: random.Random):
    place, changed = draw.randrange(len(data)), bytearray(data)
    changed[place] ^= 1 << draw.randrange(8)
    return bytes(changed)
