"""An HTTP service that grades programs of `program_writers`, and behaves as services do on a bad day.

It serves so many questions in a second and answers 429 to the others. Some questions stay without an answer. For some
the connection ends in the middle of the answer, and for some the answer is 500. A question that it is asked again it
answers in the end, as before: python -m examples.resources.unreliable_service
"""

import argparse
import signal
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock

from examples.resources.program_writers import grade
from marless.functions.resources.serving.sandbox import Sandbox

# The faults of new questions at their first attempt, in turn.
TROUBLES = ("cut off", "500", "not HTTP", "hangs")
# It trusts the programs that it is asked about.
PROGRAMS = Sandbox("none", timeout_s=10, memory_mb=256)


class Service(ThreadingHTTPServer):
    """Listens on loopback. Every so many new questions, one has a fault. `asked` counts questions by their keys."""

    daemon_threads = True

    def __init__(self, port=0, per_s=50, every=25, hang_s=30.0):
        super().__init__(("127.0.0.1", port), Handler)
        self.per_s, self.every, self.hang_s, self.stopping, self.lock = per_s, every, hang_s, Event(), Lock()
        self.asked, self.refused, self.troubles, self.begun = Counter(), 0, Counter(), []

    def trouble_of(self, key):
        """Return the treatment of a question: '' for an answer, 'busy' after too many in the last second."""
        with self.lock:
            now = time.monotonic()
            self.begun = [at for at in self.begun if now - at < 1]
            if len(self.begun) >= self.per_s:
                self.refused += 1
                return "busy"
            self.begun.append(now)
            self.asked[key] += 1
            number = len(self.asked)
            if self.asked[key] > 1 or number % self.every:
                return ""
            trouble = TROUBLES[(number // self.every - 1) % len(TROUBLES)]
            self.troubles[trouble] += 1
            return trouble


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        """Answers with the grade of a program, or as the service's trouble of the moment says. A client that asks again
        sends the same key, so the question is not a new one."""
        question = self.rfile.read(int(self.headers["Content-Length"]))
        trouble = self.server.trouble_of(self.headers.get("Idempotency-Key") or question)
        if trouble == "hangs":
            self.server.stopping.wait(self.server.hang_s)
        elif trouble == "not HTTP":
            self.wfile.write(b"out of order\n")
        elif trouble in ("busy", "500"):
            self.send_response(429 if trouble == "busy" else 500)
            self.send_header("Retry-After", "1")
            self.end_headers()
        else:
            answer = grade(question, PROGRAMS)
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer) + (trouble == "cut off")))
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, *words):
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8642)
    with Service(parser.parse_args().port) as service:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        print(f"listens on http://127.0.0.1:{service.server_address[1]}; Ctrl-C or kill ends it", flush=True)
        try:
            service.serve_forever()
        except KeyboardInterrupt:
            print(
                f"{sum(service.asked.values())} questions, {len(service.asked)} of them different;"
                f" {service.refused} refused, {sum(service.troubles.values())} spoiled"
            )
