"""A function with tasks that ask resources: a task is a list of steps, and answers with the resources' answers."""

import json
import os
import signal
import threading
import time

from marless.functions.resources.port import RESOURCES, ResourceCall, ResourceFault
from marless.infra.local.pipe_messages import Ask, frame


def handle(body, blobs):
    said = []
    for step, *arguments in json.loads(body):
        answer = _STEPS[step](blobs, *arguments)
        if answer is not None:
            said.append(answer)
    return json.dumps(said).encode()


def steps(*each):
    return json.dumps(each).encode()


def _ask(blobs, name, questions, keys=()):
    keys = keys or [""] * len(questions)
    actions = [ResourceCall(question.encode(), key) for question, key in zip(questions, keys, strict=True)]
    began = time.monotonic()
    try:
        outcomes = RESOURCES.host.ask(name, actions)
    except ResourceFault as fault:
        return {"fault": str(fault)}
    told = [
        (one.answer.decode(), one.error, one.paid, one.queued_ms, one.run_ms, one.attempts, one.slot)
        for one in outcomes
    ]
    return {"told": told, "began": began, "ended": time.monotonic()}


def _mark(blobs, name):
    blobs.put(f"{name}/{os.getpid()}", b"")


def _sleep(blobs, seconds):
    time.sleep(seconds)


def _compute(blobs, seconds):
    until = time.monotonic() + seconds
    began = time.monotonic()
    while time.monotonic() < until:
        pass
    return {"began": began, "ended": time.monotonic()}


def _variable(blobs, name):
    return os.environ.get(name, "none")


def _pid(blobs):
    return os.getpid()


def _ask_in_a_child(blobs, name):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(_ask(blobs, name, ["0"])).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(reading, 4096))


def _ask_later(blobs, name, seconds):
    """Ask in a thread that outlives its task, and write the answer into an object."""

    def ask():
        time.sleep(seconds)
        blobs.put("later/told", json.dumps(_ask(blobs, name, ["0"])).encode())

    threading.Thread(target=ask, daemon=True).start()


def _give_up(blobs, name, question, seconds):
    def stop(number, frame):
        raise TimeoutError("given up")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return _ask(blobs, name, [question])
    except TimeoutError as error:
        return str(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _forge(blobs, what):
    """Writes a question into the pipe of answers by itself."""
    host = RESOURCES.host
    ask = {
        "of another task": Ask("judge", 1000, token=1),
        "asked before": Ask("judge", 0, token=host._token),
        "of nothing": Ask("no such resource", 1000, token=host._token),
    }[what]
    host._send(frame(ask, b"0"))
    time.sleep(0.5)


_STEPS = {
    "ask": _ask,
    "mark": _mark,
    "sleep": _sleep,
    "compute": _compute,
    "pid": _pid,
    "variable": _variable,
    "ask in a child": _ask_in_a_child,
    "ask later": _ask_later,
    "give up": _give_up,
    "forge": _forge,
}
