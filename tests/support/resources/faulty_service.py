"""A service that answers each question in the end, after faults as services and gateways have them."""

import hashlib
import random
import time
from collections import Counter
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock

FAULTS = ("429", "502", "503", "504", "dropped", "closed", "cut", "slow", "500 later")
# Of which a service says when to come again, in each form that it may have. Dates are of whole seconds.
TIMES = ("0.02", " .05 ", "0", "-1", "soon", "past", "")


def grade(question):
    return hashlib.sha256(question).hexdigest().encode()


class FaultyService(ThreadingHTTPServer):
    """`faulty` of its requests meet a fault. `answered` counts the right answers by question."""

    daemon_threads = True

    def __init__(self, seed, faulty=0.5):
        super().__init__(("127.0.0.1", 0), Handler)
        self.draw, self.faulty, self.lock, self.stopping = random.Random(seed), faulty, Lock(), Event()
        self.answered, self.faults = Counter(), Counter()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}/grade"

    def fault(self):
        with self.lock:
            fault = self.draw.choice(FAULTS) if self.draw.random() < self.faulty else ""
            self.faults[fault] += 1
            return fault, self.draw.choice(TIMES)

    def handle_error(self, request, client_address):
        """A connection was cut, as it should."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        question = self.rfile.read(int(self.headers["Content-Length"]))
        fault, time_ = self.server.fault()
        if fault == "dropped":
            self.close_connection = True
        elif fault[:3].isdigit():
            later = formatdate(time.time() - 60) if time_ == "past" else time_
            self.reply(int(fault[:3]), b"", **{"Retry-After": "0.01" if fault == "500 later" else later})
        else:
            body = grade(question)
            self.server.answered[question] += 1
            self.reply(200, body[: -8 if fault == "cut" else None], length=len(body), slow=fault == "slow")
            self.close_connection = fault in ("cut", "closed")  # it does not say so

    def reply(self, status, body, length=None, slow=False, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        for part in (body[:5], body[5:]):
            self.wfile.write(part)
            time.sleep(0.02 if slow else 0.0)

    def log_message(self, *words):
        pass
