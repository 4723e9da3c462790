"""Ends a process and its process group when the process that needs it has ended.

`aws_emulator` has a copy, because it imports nothing from this project.
"""

import fcntl
import os
import select
import signal
import sys
import threading
import time

_F_SETSIG = 10  # not named by the standard library


def end_with(lifeline: int, shutdown_grace_s: float = 0.0) -> None:
    """Kills this process group when the far end of the pipe `lifeline` closes, also after a kill -9 of its holder.

    Nothing is ever written into the pipe. On Linux the kernel sends the signal, so running tasks and code that holds
    the GIL cannot delay it. On other systems, and if the process has `shutdown_grace_s` seconds to end its task, a
    thread waits for the hang-up.
    """
    if sys.platform == "linux" and not shutdown_grace_s:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
        if _has_hung_up(lifeline, 0):  # closed before F_SETFL
            os.killpg(os.getpgrp(), signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(lifeline, shutdown_grace_s), daemon=True).start()


def _watch(lifeline: int, shutdown_grace_s: float) -> None:
    _has_hung_up(lifeline, None)
    time.sleep(shutdown_grace_s)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _has_hung_up(lifeline: int, timeout_ms: int | None) -> bool:
    poll = select.poll()
    poll.register(lifeline, 0)  # no event but the hang-up, which is always reported
    return bool(poll.poll(timeout_ms))
