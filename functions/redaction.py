"""Removes secrets of this process's environment from texts that leave it: messages, log lines and tracebacks.

An exception of an environment or a plug-in may hold anything, `os.environ` included.
"""

import os
import re

_SECRET = re.compile(r"SECRET|TOKEN|PASSWORD|PASSWD|PRIVATE_KEY|API_?KEY|ACCESS_KEY", re.IGNORECASE)
# Shorter values occur in texts by chance.
_LEAST = 8
# The name and password in an address.
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+:[^/\s@]+(?=@)")


def is_secret(name: str) -> bool:
    """Whether a variable or a setting has the name of a secret."""
    return _SECRET.search(name) is not None


def redact(text: str) -> str:
    """`text` with the values of variables that have the name of a secret replaced by that name."""
    for name, value in os.environ.items():
        if len(value) >= _LEAST and is_secret(name):
            for written in (value, repr(value)[1:-1]):
                text = text.replace(written, f"<{name}>")
    return _IN_ADDRESS.sub("<redacted>", text)
