"""The first words of a connection: driver and worker prove to each other that they hold the token.

Then they compare the origins of a run's bytes. The worker sends a line of text, which makes a server of another kind
complain at once, and a nonce. The driver sends another nonce and its proof. The worker sends its proof and its badge,
and the driver its verdict. A proof is the HMAC-SHA256, with the token as key, of a label, both nonces and the
accompanying message. The labels differ and the nonces are new, so a proof works only once and in one direction.
"""

import asyncio
import hmac
import secrets
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, TypeVar

import msgspec

from marless.backends.badge import Badge
from marless.functions.encoding import MessagePackDecoder, Undecodable, to_message_pack
from marless_cluster.remote.faults import DialInError

PATIENCE_S = 10.0
"""So long the first words may take."""
_MOST_BYTES = 4096
_LENGTH = struct.Struct("<I")
_NONCE_BYTES = 32
_PROTOCOL = b"marless dial-in 1\n"
_DRIVER, _WORKER = b"driver", b"worker"
_M = TypeVar("_M")
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
_NOBODY: Mapping[str, str] = MappingProxyType({})


class Greeting(msgspec.Struct, frozen=True):
    """From the worker, the first."""

    nonce: bytes


class Challenge(msgspec.Struct, frozen=True):
    """From the driver."""

    nonce: bytes
    proof: bytes


class Answer(msgspec.Struct, frozen=True):
    """From the worker: its `proof` covers the encoded `Introduction`. Empty where the driver's proof was wrong."""

    proof: bytes
    introduction: bytes


class Introduction(msgspec.Struct, frozen=True):
    """A worker's introduction: the name of the machine, the agent, its badge, and how many tasks it serves at once."""

    host: _Name
    agent: _Name
    badge: Badge
    slots: Annotated[int, msgspec.Meta(ge=1)] = 1


class Verdict(msgspec.Struct, frozen=True):
    """From the driver, the last: why it does not take the worker. '' if it does."""

    refusal: str = ""


@dataclass(frozen=True)
class Stream:
    """The two halves of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, message: msgspec.Struct) -> None:
        """Raises `OSError`."""
        body = to_message_pack(message)
        self.writer.write(_LENGTH.pack(len(body)) + body)
        await self.writer.drain()

    async def receive(self, kind: type[_M]) -> _M:
        """Raises `EOFError` at the end, `OSError`, and `Undecodable` for another message, or one that is too long."""
        (size,) = _LENGTH.unpack(await self.reader.readexactly(_LENGTH.size))
        if size > _MOST_BYTES:
            raise Undecodable(f"its first words have more than {_MOST_BYTES:,} bytes")
        return MessagePackDecoder[_M](kind).decode(await self.reader.readexactly(size))


async def greet(stream: Stream) -> Greeting:
    """The first message of a worker. Raises `EOFError`, `OSError`, `Undecodable`."""
    if await stream.reader.readexactly(len(_PROTOCOL)) != _PROTOCOL:
        raise Undecodable("it is no worker")
    greeting = await stream.receive(Greeting)
    if len(greeting.nonce) != _NONCE_BYTES:
        raise Undecodable("it is no worker of this version")
    return greeting


async def admit(
    stream: Stream,
    greeting: Greeting,
    token: bytes,
    badge: Badge,
    any_processor: bool,
    refused: Mapping[str, str] = _NOBODY,
) -> Introduction:
    """The driver's part from there on. `refused` has agents that it no longer accepts, with the reason.

    Raises `DialInError` for a worker that it does not take, `EOFError`, `OSError`, `Undecodable`.
    """
    nonce = secrets.token_bytes(_NONCE_BYTES)
    nonces = greeting.nonce + nonce
    await stream.send(Challenge(nonce, _proof(token, _DRIVER, nonces)))
    answer = await stream.receive(Answer)
    if not hmac.compare_digest(answer.proof, _proof(token, _WORKER, nonces, answer.introduction)):
        raise DialInError("it has another token")
    introduction = MessagePackDecoder(Introduction).decode(answer.introduction)
    refusal = refused.get(introduction.agent) or _difference(badge, introduction.badge, any_processor)
    await stream.send(Verdict(refusal))
    if refusal:
        raise DialInError(refusal)
    return introduction


async def apply(stream: Stream, token: bytes, introduction: Introduction) -> None:
    """The worker's part. Raises `DialInError` when it cannot serve this driver, `EOFError`, `OSError`,
    `Undecodable`."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    stream.writer.write(_PROTOCOL)
    await stream.send(Greeting(nonce))
    challenge = await stream.receive(Challenge)
    nonces = nonce + challenge.nonce
    if len(challenge.nonce) != _NONCE_BYTES:
        raise Undecodable("it is no driver of this version")
    if not hmac.compare_digest(challenge.proof, _proof(token, _DRIVER, nonces)):
        await stream.send(Answer(b"", b""))
        raise DialInError("it has another token; give its file with --token-file, or its text in MARLESS_TOKEN")
    body = to_message_pack(introduction)
    await stream.send(Answer(_proof(token, _WORKER, nonces, body), body))
    if refusal := (await stream.receive(Verdict)).refusal:
        raise DialInError(refusal)


def _proof(token: bytes, label: bytes, nonces: bytes, body: bytes = b"") -> bytes:
    return hmac.digest(token, b"\0".join((_PROTOCOL, label, nonces, body)), "sha256")


def _difference(driver: Badge, worker: Badge, any_processor: bool) -> str:
    """Return the reason why the run would not keep its bytes on that worker, or ''."""
    if driver.program != worker.program:
        return f"the driver is {driver.program}, the worker {worker.program}; install the same on both machines"
    if driver.kernels and not worker.kernels:
        return (
            "the driver's runs compute by kernels (algorithm.engine=native), which the worker does not have; install a"
            " C compiler there, then marless again"
        )
    if driver.processor not in ("", worker.processor) and not any_processor:
        return (
            f"the driver computes on {driver.processor}, the worker on {worker.processor}, which rounds otherwise;"
            " `any_processor` of --machines at the driver takes it, and the run's bytes then depend on who served what"
        )
    return ""
