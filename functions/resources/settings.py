"""Resource: what environments ask, as a table ``[resources.NAME]`` of a configuration describes it.

What a resource answers follows from its `identity` and the question; its other settings say how it is asked.
"""

import hashlib
import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from functions.encoding import to_json
from functions.setting_limits import MOST_PROCESSES

# Lambda's longest time and largest function (Lambda developer guide, "Lambda quotas").
_MOST_S, _MOST_MB = 900, 10_240
# More cores for one action than any machine has.
_MOST_CORES = 1_024
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""What a resource may be called: a part of keys, of variables and of functions' names."""
# What an answer follows from.
_IDENTITY = ("serve", "command", "until", "http", "sandbox")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}

Cores = Annotated[int, Meta(ge=1, le=_MOST_CORES)]


class Resource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What serves a resource's actions, and how it is asked. Exactly one of `serve`, `command` and `http` is set."""

    serve: Annotated[str, Meta(description="package.module:function, which takes a question and returns an answer")] = (
        ""
    )
    command: Annotated[str, Meta(description="a program that is kept running and answers lines, such as stockfish")] = (
        ""
    )
    http: Annotated[
        str, Meta(description="address of a service: a question is the body of a POST, the answer its body")
    ] = ""
    until: Annotated[
        str, Meta(description="command: the answer ends with the first line that starts so; default: it is one line")
    ] = ""
    slots: Annotated[int, Meta(ge=1, le=MOST_PROCESSES, description="actions at once, over all runs of a study")] = 1
    cores: Annotated[tuple[Cores, Cores], Meta(description="the least and the most cores of one action")] = (1, 1)
    rate: Annotated[
        str,
        Meta(pattern=r"^$|^[0-9]+(\.[0-9]+)?/(s|min|h)$", description="the most actions in a time: 600/min, 10/s"),
    ] = ""
    timeout_s: Annotated[float, Meta(gt=0, le=_MOST_S, description="time limit of one attempt at an action")] = 20.0
    attempts: Annotated[int, Meta(ge=1, le=10, description="attempts of an action before its task fails")] = 3
    keep: Annotated[
        bool, Meta(description="answers are objects of the run: each question is asked and paid once, whatever fails")
    ] = False
    sandbox: Annotated[
        Literal["none", "bubblewrap"], Meta(description="bubblewrap: without network, and nothing can be written")
    ] = "none"
    memory_mb: Annotated[int, Meta(ge=128, le=_MOST_MB, description="memory of one slot")] = 1769

    def __post_init__(self) -> None:
        sources = [name for name in ("serve", "command", "http") if getattr(self, name)]
        if len(sources) != 1:
            listed = f"{' and '.join(sources)} are set" if sources else "none is set"
            raise ValueError(f"a resource has exactly one of serve, command and http; {listed}")
        if self.cores[0] > self.cores[1]:
            raise ValueError(f"cores = {[*self.cores]}: the least is above the most")
        if self.rate and not self.per_s:
            raise ValueError(f"rate = {self.rate!r} allows no action; leave it out for no limit")

    @property
    def per_s(self) -> float:
        """The most actions that start in a second on average; 0 without a limit."""
        number, _, unit = self.rate.partition("/")
        return float(number) / _SECONDS[unit] if self.rate else 0.0


def identity(name: str, resource: Resource) -> str:
    """What answers follow from beside the question, as a SHA-256 in hexadecimal digits: the name, and what is asked."""
    parts = (name, *(str(getattr(resource, part)) for part in _IDENTITY))
    return hashlib.sha256(to_json(parts)).hexdigest()
