"""Return whether a head of Ray answers, which Ray itself asks for minutes and in silence."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence

from marless.functions.system_errors import explain

AUTO, LOCAL = "auto", "local"
"""What stands for an address: the head of this machine, and a new one of this process."""
ADDRESS = "RAY_ADDRESS"
"""The variable by which Ray itself is told where a head is."""
_MODE, _TOKEN = "RAY_AUTH_MODE", "token"
_TOKENS = "RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
_NONE_HERE = "no Ray head runs on this machine; 'ray start --head' starts one, and RAY_ADDRESS names another"
_KNOCK_S = 5.0
# An interpreter starts and imports Ray on a machine that may be busy, and the head may be, too.
HEALTH_S = 60.0


def trouble(address: str, patience_s: float = HEALTH_S) -> str:
    """Return the reason why no head at the address takes this process, in one line, or ''.

    One that says nothing is waited for for `patience_s`.
    """
    if address == LOCAL:
        return ""
    if address == AUTO:
        here = head_here()
        return _unanswered(here) or _ill(here, patience_s, _modes_here()) if here else _NONE_HERE
    if address.startswith(("http://", "https://")):
        return f"{address} is the address of Ray's jobs; name the head, whose port is 6379: {ADDRESS}=HOST:PORT"
    if "://" in address:
        return f"{address} is for Ray's client; start marless on a node of the cluster, with {ADDRESS}=HOST:PORT"
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and int(port) < 1 << 16):
        return f"{address[:100]!r} is no address of a Ray head: HOST:PORT, {AUTO} or {LOCAL}"
    return _unanswered(address) or _ill(address, patience_s, (_mode(),))


def head_here() -> str | None:
    """The address of the head of this machine, by Ray's own account. None without one."""
    from ray._private import services

    try:
        address: str | None = services.canonicalize_bootstrap_address(AUTO)
    except ConnectionError:
        return None
    return address


def _unanswered(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _KNOCK_S).close()
    except OSError as error:
        return f"no Ray head answers at {address}: {explain(error, '')}"
    return ""


def _mode() -> str:
    return os.environ.get(_MODE, "")


def _modes_here() -> tuple[str, ...]:
    """Ray takes a token for the head of this machine where there is one, unless it is told otherwise."""
    return (_mode(),) if _mode() else ("", _TOKEN)


def _ill(address: str, patience_s: float, modes: Sequence[str]) -> str:
    """Return the message of Ray's own check with one of the modes, in a process that can be ended."""
    command = (sys.executable, "-P", "-m", "ray.scripts.scripts", "health-check", "--address", address)
    text = ""
    for mode in modes:
        variables = {**os.environ, **({_MODE: mode} if mode else {})}
        try:
            check = subprocess.run(
                command,
                env=variables,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=patience_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"what answers at {address} did not say within {patience_s:g} s that it is a Ray head"
        if check.returncode == 0:
            return ""
        text = check.stderr
    return _refusal(address, text, modes[-1])


def _refusal(address: str, text: str, mode: str) -> str:
    if "uthentication token" in text:
        if mode.lower() == _TOKEN:
            return f"the Ray head at {address} asks for a token, which is not in {_TOKENS}"
        return f"the Ray head at {address} asks for a token: set {_MODE}={_TOKEN} (the token is in {_TOKENS})"
    mismatch = next((line for line in text.splitlines() if "version mismatch" in line), "")
    if mismatch:
        return f"the Ray head at {address} is of another version: {mismatch.rpartition('mismatch: ')[2]}"
    return f"what answers at {address} is no Ray head"
