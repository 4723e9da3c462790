"""Has a server of the standard library serve while a test asks it."""

from contextlib import contextmanager
from threading import Thread


@contextmanager
def serving(server):
    """Within the block `server` answers, from a thread. At its end `stopping` of hanging servers is set."""
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()
