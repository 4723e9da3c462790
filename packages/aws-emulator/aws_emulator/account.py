"""Finds, starts and stops a folder's emulated account."""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from aws_emulator.account_folder import AccountFolder, Whereabouts
from aws_emulator.settings import DEFAULTS, AccountSettings

# An account takes two seconds to start on an idle machine.
_START_S = 60.0
_STOP_S = 10.0
_LONGEST_LINE = 1000
_ROOT = Path(__file__).resolve().parents[1]


class AccountFault(Exception):
    """The account did not start or end. The message gives the reason, in one line."""


@dataclass(frozen=True)
class Account:
    """A running account."""

    folder: AccountFolder
    whereabouts: Whereabouts

    def stop(self) -> None:
        """Ends the account with its functions and data. Idempotent. Raises `AccountFault`."""
        for number, patience_s in ((signal.SIGTERM, _STOP_S), (signal.SIGKILL, _STOP_S)):
            # The lock shows that the process id still belongs to the account and was not reused.
            if self.folder.whereabouts() not in (None, self.whereabouts) or not self.folder.alive():
                return
            with suppress(ProcessLookupError):
                os.kill(self.whereabouts.pid, number)
            if _has_ended(self.folder, patience_s):
                return
        raise AccountFault(f"the emulated account in {self.folder.root} (process {self.whereabouts.pid}) does not end")


def find(root: Path) -> Account | None:
    """Returns the folder's running account, or None."""
    folder = AccountFolder(root)
    whereabouts = folder.whereabouts()
    return Account(folder, whereabouts) if whereabouts else None


def start(root: Path, settings: AccountSettings = DEFAULTS, lifeline: int | None = None) -> Account:
    """Returns the folder's account and starts it if it does not run. It outlives this process.

    If `lifeline`, the read end of a pipe, is given, the account ends when the write end closes. Concurrent callers get
    the same account. Raises `AccountFault`.
    """
    folder = AccountFolder(root)
    lock = folder.starting()
    try:
        folder.make()
        lock.take(wait=True)
        account, error_text = find(root), ""
        if account is None:
            error_text = _spawn(folder, settings, lifeline)
            account = find(root)
    except OSError as error:
        raise AccountFault(f"the emulated account did not start: {error.strerror}: {folder.root}") from error
    finally:
        lock.release()
    if account is None:
        why = error_text or f"{_last_words(folder)} (log: {folder.log})"
        raise AccountFault(f"the emulated account did not start: {why}")
    return account


def _spawn(folder: AccountFolder, settings: AccountSettings, lifeline: int | None) -> str:
    """Starts the process and waits until it answers or ends. Returns its error message, if any.

    The message comes through the pipe because on a full disk the process cannot write it into its log.
    """
    ready_reader, ready_writer = os.pipe()
    arguments = [str(folder.root), *settings.arguments(), f"--code={_ROOT}", f"--ready={ready_writer}"]
    descriptors = [ready_writer]
    if lifeline is not None:
        arguments.append(f"--lifeline={lifeline}")
        descriptors.append(lifeline)
    with os.fdopen(os.open(folder.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as log:
        subprocess.Popen(
            [sys.executable, "-P", "-m", "aws_emulator.server", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(),
            pass_fds=descriptors,
            start_new_session=True,  # Ctrl-C in the terminal must not end the account
        )
    os.close(ready_writer)
    try:
        ready, _, _ = select.select([ready_reader], [], [], _START_S)
        return os.read(ready_reader, _LONGEST_LINE).decode(errors="replace").strip() if ready else ""
    finally:
        os.close(ready_reader)


def _environment() -> dict[str, str]:
    """The environment variables of the account's process, without variables for AWS access or a proxy."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "MOTO_")) and not name.lower().endswith("_proxy")
    }
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    return {**variables, **nowhere, "AWS_EC2_METADATA_DISABLED": "true", "PYTHONPATH": str(_ROOT)}


def _has_ended(folder: AccountFolder, patience_s: float) -> bool:
    give_up = time.monotonic() + patience_s
    while folder.alive():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def _last_words(folder: AccountFolder) -> str:
    """The last line of the account's log."""
    lines = folder.log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
