"""Ends a process and its process group when the process that needs it has ended.

It imports only the standard library: an execution environment runs it from its file, see `environment_process`.
"""

import fcntl
import os
import select
import signal
import sys
import threading

_F_SETSIG = 10  # not named by the standard library


def end_with(lifeline: int) -> None:
    """Kills this process group when the far end of the pipe `lifeline` closes, also after a kill -9 of its holder.

    Nothing is ever written into the pipe. On Linux the kernel sends the signal, so a running task or code that holds
    the GIL cannot delay it. Elsewhere a thread waits for the hang-up.
    """
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)
        if _has_closed(lifeline, 0):  # closed before F_SETFL
            os.killpg(os.getpgrp(), signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(lifeline,), daemon=True).start()


def _watch(lifeline: int) -> None:
    _has_closed(lifeline, None)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _has_closed(lifeline: int, timeout_ms: int | None) -> bool:
    poll = select.poll()
    poll.register(lifeline, 0)  # no event but the hang-up, which is always reported
    return bool(poll.poll(timeout_ms))
