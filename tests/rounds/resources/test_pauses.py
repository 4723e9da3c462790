"""A service of a run asks for a pause: the user is told, and a stop request ends the wait."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event

import pytest
from driver import train
from loopback import serving

from marless.backends.registry import backend

RUN = ("task.name=toy/signal", "task.judge=judge", "stop.rounds=1", "actors.num_envs=2", "algorithm.hidden=[8]",
       "actors.rollouts=2", "resources.judge.slots=2", "resources.judge.timeout_s=10")  # fmt: skip


class Busy(BaseHTTPRequestHandler):
    """Asks to be left alone for some seconds, and notes that it was asked."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        self.send_response(503)
        self.send_header("Retry-After", "8")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


@pytest.fixture
def busy():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    server.asked, server.stopping = 0, Event()
    with serving(server):
        yield server


def test_stopping_run_waits_for_no_service(tmp_path, busy, processes):
    opened = []

    def open_(folder, workers):
        opened.append(backend("local").open(folder, workers))
        return opened[0]

    settings = [*RUN, f"resources.judge.http=http://127.0.0.1:{busy.server_port}/"]
    trained = train(tmp_path / "run", settings, 2, asking=lambda: not busy.asked, back_end=open_)
    assert trained.state.status == "running" and not trained.lines
    assert busy.asked <= 2  # by each slot once
    assert opened[0].news() == ["resource 'judge': 503 Service Unavailable; it asks to be left alone for 8 s"]
