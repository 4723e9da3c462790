"""Handlers of emulated functions for tests. An event names the action."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

_CALLS = 0


def handler(event, context):
    """`{"do": NAME, ...}`: the action's result. Without an action, the process and environment."""
    global _CALLS
    _CALLS += 1
    return _DEEDS[event.get("do", "describe")](event, context)


def nothing(event, context):
    return None


def describe(event, context):
    """The process, its number of calls, and the values of the context."""
    return {
        "pid": os.getpid(),
        "calls": _CALLS,
        "request": context.aws_request_id,
        "arn": context.invoked_function_arn,
        "left_ms": context.get_remaining_time_in_millis(),
        "event": event,
    }


def variables(event, context):
    return dict(os.environ)


def speak(event, context):
    print(event["text"])


def fail(event, context):
    raise ValueError(event.get("text", "no"))


def leave(event, context):
    print("leaving")
    os._exit(event["status"])


def die(event, context):
    os.kill(os.getpid(), signal.SIGKILL)


def die_later(event, context):
    """Ends the process when the answer has been given."""
    threading.Thread(target=lambda: (time.sleep(0.05), os._exit(0)), daemon=True).start()
    return os.getpid()


def hang(event, context):
    """Never end, like the process that it starts. Write both ids into the file."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note(event, f"{os.getpid()} {other.pid}")
    time.sleep(600)


def meet(event, context):
    """Signals its start, then waits for permission to end: two FIFOs."""
    Path(event["here"]).write_text("here")
    Path(event["go"]).read_text()
    return os.getpid()


def fill(event, context):
    return "x" * event["length"]


def swell(event, context):
    """Holds `mib` MiB, for `s` seconds if given."""
    held = bytearray(os.urandom(1 << 20) * event["mib"])
    time.sleep(event.get("s", 0))
    return len(held)


def fork(event, context):
    """Hold `mib` MiB while two children run for a moment. They hold as much separately, or share it."""
    held = bytearray(event["mib"] << 20)
    children = []
    for _ in range(2):
        children.append(os.fork())
        if not children[-1]:
            if event["own"]:
                held[:] = bytes(len(held))
            time.sleep(0.3)
            os._exit(0)
    for child in children:
        os.waitpid(child, 0)
    return "forked"


def append(event, context):
    note(event, f"{event['text']} {os.getpid()}")


def again(event, context):
    """Records its run and invokes the function again, at most `most` times. Returns the innermost error's code."""
    from botocore.exceptions import ClientError

    note(event, os.environ["_X_AMZN_TRACE_ID"])
    if event["most"] == 1:
        return "done"
    payload = json.dumps({**event, "most": event["most"] - 1})
    try:
        answer = client().invoke(FunctionName=context.function_name, InvocationType=event["how"], Payload=payload)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return json.loads(answer["Payload"].read() or "null")


@cache
def client():
    from botocore.config import Config
    from botocore.session import get_session

    return get_session().create_client("lambda", config=Config(retries={"total_max_attempts": 1}))


def note(event, text):
    """Appends one line to the file, atomically."""
    descriptor = os.open(event["file"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


_DEEDS = {
    deed.__name__: deed
    for deed in (
        nothing,
        describe,
        variables,
        speak,
        fail,
        leave,
        die,
        die_later,
        hang,
        meet,
        fill,
        swell,
        fork,
        append,
        again,
    )
}
