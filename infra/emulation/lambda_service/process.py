"""One process of awslambdaric: started, watched, and killed with all that it started."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

CHILD = Path(__file__).with_name("child.py")


class RuntimeProcess:
    """A running handler; `output` is the descriptor that it prints to."""

    def __init__(self, handler: str, folder: Path, variables: Mapping[str, str], output: int) -> None:
        self.started = time.monotonic()
        far, lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(
                # -P: only PYTHONPATH decides what can be imported, not where child.py lies.
                [sys.executable, "-P", str(CHILD), str(far), handler],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=variables,
                pass_fds=(far,),
                start_new_session=True,  # Ctrl-C in the terminal is for the account alone
            )
        except OSError:
            os.close(lifeline)
            raise
        finally:
            os.close(far)
        self._lifeline: int | None = lifeline

    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> str:
        """How the process ended, in Lambda's words; waits for it."""
        status = self._process.wait()
        if status == 0:
            return "Runtime exited without providing a reason"
        name = (signal.strsignal(-status) or str(-status)).lower() if status < 0 else ""
        return f"Runtime exited with error: {f'signal: {name}' if name else f'exit status {status}'}"

    def peak_mb(self) -> int:
        """Most memory that the process ever held, MiB; 0 of a dead one, and where the system does not tell."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_bytes()
            start = status.index(b"VmHWM:") + 6
        except (OSError, ValueError):
            return 0
        return round(int(status[start : status.index(b"kB", start)]) / 1024)

    def kill(self) -> None:
        """Ends the process and its group; for any thread, as long as `close` has not been called."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            self._process.kill()

    def close(self) -> None:
        """Ends the process and waits for its end. Twice is harmless."""
        if self._lifeline is not None:
            self.kill()
            self._process.wait()
            os.close(self._lifeline)
            self._lifeline = None
