"""A resource for environments, from a table ``[resources.NAME]`` of a configuration.

A resource's `identity` and the question determine the answer. Its other settings say how to ask it.
"""

import hashlib
import re
import shlex
from collections.abc import Iterator
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec import Meta

from marless.functions.encoding import to_json
from marless.functions.setting_limits import MOST_PROCESSES

# Lambda's longest time and largest function (Lambda developer guide, "Lambda quotas").
_MOST_S, _MOST_MB = 900, 10_240
# More cores for one action than any machine has.
_MOST_CORES = 1_024
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""The form of a resource's name: a part of keys, of variables and of functions' names."""
SOURCES = ("serve", "command", "http")
"""The settings that can name the source of answers. A resource sets one of them."""
# Settings that decide an answer. Settings of the second group count where they are set.
_IDENTITY, _IDENTITY_IF_SET = (*SOURCES, "until", "sandbox"), ("ready", "ping", "tagged")
# The settings of a program that name the beginning of a line, or a line.
_LINES = ("until", "ready", "ping")
_TOKEN = "MARLESS_RESOURCE_", "_TOKEN"
DIAL_IN_TOKEN = "MARLESS_TOKEN"
"""The variable with the token that a driver and workers of other machines share."""
_OLD_JUDGE = "functions.resources.code_judge:"
"""How stored configurations name our judge that were written before all modules were below `marless`."""
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_RATE = re.compile(r"[0-9]+(?:\.[0-9]+)?/(?:s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}

# The longest name and label of the domain name system (RFC 1035, 2.3.4).
_LONGEST_NAME, _LONGEST_LABEL = 253, 63
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?")

Cores = Annotated[int, Meta(ge=1, le=_MOST_CORES)]


class Resource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A function, program or service that answers questions. Set exactly one of `serve`, `command` and `http`.

    Attributes:
        serve: package.module:function, which takes a question and returns an answer
        command: a program that answers lines, such as stockfish
        http: address of a service: a question is the body of a POST, the answer its body
        until: command: beginning of the last line of an answer. Default: an answer is one line
        ready: command: beginning of the line that says it is ready for questions. Default: it is asked at once
        ping: command: it is kept running, and a line that starts with `ready` answers this line
        tagged: command: it is kept running, and repeats the first word of a question in its answer
        slots: actions at once, over all runs of a study. Higher is faster, if the resource allows it
        cores: the least and the most cores of one action
        rate: largest number of actions that start in a time, such as 600/min. Default: no limit
        timeout_s: time limit of one attempt at an action
        attempts: attempts of an action before its task fails. Higher survives more faults
        keep: keep answers as objects of the run. Each question is asked and paid once, even after failures
        sandbox: bubblewrap: block the network and all writing
        sandbox_paths: files and folders that may be read in the sandbox, in addition to the program's own file
        memory_mb: memory of one slot, in MB
    """

    serve: str = ""
    command: str = ""
    http: str = ""
    until: str = ""
    ready: str = ""
    ping: str = ""
    tagged: bool = False
    slots: Annotated[int, Meta(ge=1, le=MOST_PROCESSES)] = 1
    cores: tuple[Cores, Cores] = (1, 1)
    rate: str = ""
    timeout_s: Annotated[float, Meta(gt=0, le=_MOST_S)] = 20.0
    attempts: Annotated[int, Meta(ge=1, le=10)] = 3
    keep: bool = False
    sandbox: Literal["none", "bubblewrap"] = "none"
    sandbox_paths: tuple[str, ...] = ()
    memory_mb: Annotated[int, Meta(ge=128, le=_MOST_MB)] = 1769

    def __post_init__(self) -> None:
        if self.serve.startswith(_OLD_JUDGE):
            msgspec.structs.force_setattr(self, "serve", f"marless.{self.serve}")
        if problem := next(_faults(self), ""):
            raise ValueError(problem)

    @property
    def per_s(self) -> float:
        """The most actions that start in a second on average, or 0 without a limit."""
        number, _, unit = self.rate.partition("/")
        return float(number) / _SECONDS[unit] if self.rate else 0.0

    @property
    def patience_s(self) -> float:
        """The longest that an action waits for a service that asks to be left alone, in seconds: as its attempts do."""
        return self.attempts * self.timeout_s


def token_variable(name: str) -> str:
    """The variable of the environment with the token of a service."""
    return f"{_TOKEN[0]}{name.upper()}{_TOKEN[1]}"


def is_token(variable: str) -> bool:
    """Return True if a variable holds a token. Tasks and other resources do without it."""
    return variable == DIAL_IN_TOKEN or (variable.startswith(_TOKEN[0]) and variable.endswith(_TOKEN[1]))


def _faults(resource: Resource) -> Iterator[str]:
    sources = [name for name in SOURCES if getattr(resource, name)]
    if len(sources) != 1:
        listed = f"{' and '.join(sources)} are set" if sources else "none is set"
        yield f"a resource has exactly one of serve, command and http; {listed}"
    if resource.cores[0] > resource.cores[1]:
        yield f"cores = {[*resource.cores]}: the least is above the most"
    if resource.rate and (not _RATE.fullmatch(resource.rate) or not resource.per_s):
        yield f"rate = {resource.rate!r} is no rate, such as 600/min or 10/s"
    yield from _source_faults(resource)
    yield from _sandbox_faults(resource)


def _source_faults(resource: Resource) -> Iterator[str]:
    if resource.serve and not _FUNCTION.fullmatch(resource.serve):
        yield f"serve = {resource.serve!r} names no function: write package.module:function"
    if resource.command and not _words(resource.command):
        yield f"command = {resource.command!r} is no command line"
    yield from _line_faults(resource)
    if resource.http and (problem := _address_fault(resource.http)):
        yield f"http: {problem}"
    if resource.command and resource.cores[0] != resource.cores[1]:
        yield f"cores = {[*resource.cores]}: a program is not told how many it has; write one number twice"
    if resource.http and resource.cores != (1, 1):
        yield "cores: a service computes elsewhere; leave it out"


def _sandbox_faults(resource: Resource) -> Iterator[str]:
    if resource.http and resource.sandbox != "none":
        yield "sandbox: a service runs elsewhere; leave it out"
    if resource.sandbox_paths and resource.sandbox == "none":
        yield 'sandbox_paths: without a sandbox every file may be read; leave it out, or set sandbox = "bubblewrap"'


def _line_faults(resource: Resource) -> Iterator[str]:
    lines = {name: getattr(resource, name) for name in _LINES if getattr(resource, name)}
    for name in [*lines, *(["tagged"] if resource.tagged else [])]:
        if not resource.command:
            yield f"{name} says how a command is spoken to; leave it out"
        if resource.tagged and lines:
            yield f"tagged: the answer is a line with the word of its question; leave out {', '.join(lines)}"
    for name, text in lines.items():
        if "".join(text.splitlines()) != text:
            yield f"{name} = {text!r} has a line break; name the beginning of one line"
    if resource.ping and not resource.ready:
        yield "ping: set ready to the beginning of the line that answers it"


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _address_fault(address: str) -> str:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        return str(error)
    if "@" in parts.netloc:
        return f"leave out name and password; a token goes into the variable {token_variable('<NAME>')}"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "write it as https://host/path"
    return _host_fault(parts, parts.hostname) or _text_fault(address)


def _text_fault(address: str) -> str:
    if unfit := [sign for sign in address if not "!" <= sign <= "~"]:
        return f"{unfit[0]!r} cannot stand in an address; write it with a percent sign, such as %20 for a blank"
    return "a service is not sent what follows '#'; leave it out" if "#" in address else ""


def _host_fault(parts: SplitResult, host: str) -> str:
    from ipaddress import IPv4Address, IPv6Address  # few processes need it

    labels = host.removesuffix(".").split(".")
    try:
        if "[" in parts.netloc:
            IPv6Address(host)
            return ""
        if labels[-1].isdigit():
            IPv4Address(host)
            return ""
    except ValueError:
        return f"{host!r} is no number of a host"
    if not host.isascii():
        return f"{host!r} has letters that the domain name system lacks; write the host as {_encoded(host)}"
    if unfit := [label for label in labels if not _LABEL.fullmatch(label) or len(label) > _LONGEST_LABEL]:
        return (
            f"{unfit[0]!r} is no part of a host's name: 1 to {_LONGEST_LABEL} letters, digits and '-' between two dots"
        )
    return f"the host has more than {_LONGEST_NAME} letters" if len(host) > _LONGEST_NAME else ""


def _encoded(host: str) -> str:
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return "xn--..."


def identity(name: str, resource: Resource) -> str:
    """Hash the name and the settings that determine answers next to the question, as SHA-256 in hexadecimal digits."""
    parts = [name, *(str(getattr(resource, part)) for part in _IDENTITY)]
    parts += [f"{part} = {value}" for part in _IDENTITY_IF_SET if (value := getattr(resource, part))]
    return hashlib.sha256(to_json(parts)).hexdigest()
