"""Serving of requests by all functions: decode, answer a repeated attempt from storage, store write-once, encode.

A task's objects are written in a fixed order, and the header of the last holds the whole answer. An attempt that finds
that object answers with it. An attempt that finds an earlier object of its task continues after it. The resource calls
of a task are a separate object before the last (`marless.functions.resources.call_meter`).

Objects may also be inlined in messages. A request's inlined objects need no read from storage. With `inline_objects`
the answer's objects have the same bytes, but stay out of storage.

A process may keep the encoded bytes of objects that it has read from storage, which it has checked against their hash,
or written (`marless.functions.warm_cache`). They are found by hash and size, and never by key.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.functions import codec, errors, keys
from marless.functions.encoding import JsonDecoder, to_json
from marless.functions.environments.base import EnvironmentFault, Unsupported
from marless.functions.isolation import process_guard
from marless.functions.isolation.arithmetic import standard_arithmetic
from marless.functions.isolation.process_guard import ProcessChanged, ProcessGuard
from marless.functions.messages.actor import DescribeTask, SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.exchange import Answer, Done, Failed, FailureKind, Origin, Reply, Request, TaskHeader
from marless.functions.messages.learner import RegroupTask, WholeTask
from marless.functions.messages.message import Ref, Table
from marless.functions.messages.usage import Usage
from marless.functions.storage_port import Blobs, Files
from marless.functions.stored_answers import REPLY, last_object, require_task, stored_answer
from marless.functions.text.redaction import redact
from marless.functions.text.tracebacks import show_traceback
from marless.functions.warm_cache import WARM

if TYPE_CHECKING:
    from marless.functions.resources.call_meter import CallMeter

Tensors = dict[str, NDArray[Any]]


class Output(NamedTuple):
    """An object of a task: its kind, its tensors, and the origins of the trajectories that it holds."""

    kind: str
    tensors: Tensors
    origins: tuple[Origin, ...] = ()


Objects = list[Output]
"""In the order of writing."""

Work = Callable[[Any, Blobs], tuple[Objects, Reply]]
"""The work of one kind of task: its objects in the order of writing, and its reply."""

_DECODER = JsonDecoder[Request](Request)

# Whether another attempt can succeed: only after causes that may be transient.
_FAILURES: Mapping[type[Exception], tuple[FailureKind, bool]] = {
    EnvironmentFault: ("environment", True),
    ProcessChanged: ("environment", True),
    Unsupported: ("request", False),
    errors.NotFinite: ("not_finite", False),
    errors.ForeignObject: ("foreign_object", False),
    errors.CorruptObject: ("corrupt_object", False),
    errors.NoSuchObject: ("corrupt_object", False),
    errors.StorageFault: ("storage", False),
    errors.BadRequest: ("request", False),
    errors.MissingExtra: ("missing_extra", False),
}


class Counted:
    """Counts the operations and bytes of `blobs` for the bill, and the reads that kept objects have saved.

    `actions` counts the task's resource calls. It is None if the task may ask none.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.calls: CallMeter | None = None
        self._hits, self._hit_bytes = WARM.hits, WARM.hit_bytes
        self._puts = self._gets = self._written = self._read = 0

    def get(self, key: str, size: int | None = None) -> bytes:
        self._gets += 1
        body = self._blobs.get(key, size)
        self._read += len(body)
        return body

    def put(self, key: str, body: bytes) -> None:
        self._puts += 1
        self._written += len(body)
        self._blobs.put(key, body)

    def file(self, key: str, sha256: str, size: int) -> Path:
        """See `Files`. Mapping counts no operation, because the file is not read."""
        return _file(self._blobs, key, sha256, size)

    @property
    def usage(self) -> Usage:
        """Operations and calls so far."""
        return Usage(
            puts=self._puts,
            gets=self._gets,
            bytes_written=self._written,
            bytes_read=self._read,
            hits=WARM.hits - self._hits,
            hit_bytes=WARM.hit_bytes - self._hit_bytes,
            calls=self.calls.use if self.calls else {},
        )


class Inlined:
    """Reads the objects of a message, and all others from `blobs`."""

    def __init__(self, objects: Mapping[str, bytes], blobs: Blobs) -> None:
        self._objects, self._blobs = objects, blobs

    def get(self, key: str, size: int | None = None) -> bytes:
        body = self._objects.get(key)
        return self._blobs.get(key, size) if body is None else body

    def put(self, key: str, body: bytes) -> None:
        self._blobs.put(key, body)

    def file(self, key: str, sha256: str, size: int) -> Path:
        """See `Files`."""
        return _file(self._blobs, key, sha256, size)

    def holds(self, key: str) -> bool:
        """Return whether the message has the object."""
        return key in self._objects


def _file(blobs: Blobs, key: str, sha256: str, size: int) -> Path:
    if not isinstance(blobs, Files):
        raise errors.BadRequest(f"{key} is mapped from a file, and this storage has none")
    return blobs.file(key, sha256, size)


def read(blobs: Blobs, refs: tuple[Ref, ...], lasting: bool = False) -> Tensors:
    """The tensors of several objects, in arrays that no other call returns, so that a task may write into them.

    Pass `lasting` for objects that later tasks of the run read too: every process keeps these.

    If this process keeps an object, storage is not read. The kept bytes were checked when they came and are constant.
    They stay right if the object in storage is damaged or deleted. All others raise `CorruptObject` if they differ from
    their reference, and the errors of `Blobs.get`.
    """
    return {name: array for ref in refs for name, array in codec.decode(fetch(blobs, ref, lasting), ref.key).items()}


def fetch(blobs: Blobs, ref: Ref, lasting: bool = False) -> bytes:
    """Return the object's bytes, from the message, from this process's cache, or else from storage. See `read`."""
    if isinstance(blobs, Inlined) and blobs.holds(ref.key):
        return codec.fetch(blobs, ref)
    # The hash is not computed again, which takes ten times as long as reading a file of the object.
    entry: bytes | None = WARM.get((ref.sha256, ref.size))
    if entry is None:
        return _keep(ref, codec.fetch(blobs, ref), lasting)
    WARM.hit(1, ref.size)
    return entry


def _keep(ref: Ref, body: bytes, lasting: bool = False) -> bytes:
    if lasting or WARM.keeps_objects:
        WARM.keep((ref.sha256, ref.size), body, len(body))
    return body


def serve(body: bytes, blobs: Blobs, works: Mapping[type[Request], Work]) -> bytes:
    """Answers an encoded request with `Done`, or with `Failed` and one line after an expected error.

    `works` maps the types of task that this function serves to their work. Other exceptions are not caught. The
    platform sees a crash.
    """
    meter = Counted(blobs)
    with standard_arithmetic():
        request = _DECODER.decode(body, "the request")
    with ProcessGuard(_owner(request), request.address.run) as guard, _resources(request, meter):
        try:
            if (work := works.get(type(request))) is None:
                raise errors.BadRequest(f"this function does not serve {type(request).__name__}")
            answer: Answer = _earlier(request, meter) or _answer(request, meter, work)
        except tuple(_FAILURES) as error:
            failure, again = next(entry for kind, entry in _FAILURES.items() if isinstance(error, kind))
            if failure == "environment":
                show_traceback(error)
            message = redact(str(error))
            answer = Failed(
                id=request.address.id,
                attempt=request.attempt,
                kind=failure,
                message=message,
                again=again,
                usage=meter.usage,
            )
    if remarks := guard.remarks():
        answer = msgspec.structs.replace(answer, remarks=remarks)
    if meter.calls and meter.calls.times:
        answer = msgspec.structs.replace(answer, call_times=tuple(meter.calls.times))
    return to_json(answer)


@contextmanager
def _resources(request: Request, meter: Counted) -> Iterator[None]:
    """Within the block environments ask the task's resources, and the meter counts it. If there are none, the modules
    for them are not imported."""
    if not request.resources:
        yield
        return
    from marless.functions.resources.asking import Asking
    from marless.functions.resources.call_meter import CallMeter
    from marless.functions.resources.port import RESOURCES

    meter.calls = CallMeter()
    with RESOURCES.bind(Asking(request.resources, meter, RESOURCES.host, request.address.id, meter.calls)):
        yield


def _owner(request: Request) -> str:
    match request:
        case DescribeTask() | EvaluateTask():
            return request.environment.name
        case SampleTask() | WholeTask() | RegroupTask():
            return request.sampling.environment.name
    return request.learning.algorithm


def _answer(request: Request, meter: Counted, work: Work) -> Done:
    objects, reply = work(request, Inlined(request.inlined, meter))
    process_guard.restore()
    for name in non_finite_fields(reply):
        raise errors.NotFinite(f"the answer's {name} hold NaN or infinity")
    return (_inline if request.inline_objects else _store)(request, meter, objects, reply)


def non_finite_fields(value: object, name: str = "") -> Iterator[str]:
    """The names of fields of a message, and of messages in it, that hold NaN or infinity."""
    match value:
        case float() if not math.isfinite(value):
            yield name
        case Table() if not np.isfinite(codec.unpack_table(value)).all():
            yield name
        case msgspec.Struct():
            for field in value.__struct_fields__:
                yield from non_finite_fields(getattr(value, field), field)
        case dict():
            yield from non_finite_fields(tuple(value.values()), name)
        case tuple():
            for item in value:
                yield from non_finite_fields(item, name)


def _earlier(request: Request, blobs: Counted) -> Done | None:
    kind = last_object(request)
    if request.attempt == 0 or kind is None or request.inline_objects:
        return None
    try:
        body = blobs.get(keys.object_key(request.address.output, kind))
    except errors.NoSuchObject:
        return None
    done = _adopt(request, kind, body, blobs)
    if blobs.calls is None:
        return done
    asker = blobs.calls.adopt(request, blobs)
    return msgspec.structs.replace(done, usage=blobs.usage, calls_of=asker)


def _store(request: Request, blobs: Counted, objects: Objects, reply: Reply) -> Done:
    """Writes the objects and returns the answer. The first writer of a key wins."""
    refs: dict[str, Ref] = {}
    if last_object(request) == REPLY:
        objects = [*objects, Output(REPLY, {})]
    for output in objects:
        kind, body = output.kind, _encode(request, output, refs, reply)
        key = keys.object_key(request.address.output, kind)
        if kind == last_object(request) and blobs.calls:
            blobs.calls.store(request, blobs)
        try:
            blobs.put(key, body)
        except errors.KeyTaken:
            body = blobs.get(key)
            if kind == last_object(request):
                return _adopt(request, kind, body, blobs)
            _require_own(request, key, body)
        refs = {**refs, kind: codec.reference(key, body)}
        _keep(refs[kind], body)
    return Done(id=request.address.id, attempt=request.attempt, objects=refs, reply=reply, usage=blobs.usage)


def _inline(request: Request, blobs: Counted, objects: Objects, reply: Reply) -> Done:
    refs: dict[str, Ref] = {}
    bodies: dict[str, bytes] = {}
    for output in objects:
        key = keys.object_key(request.address.output, output.kind)
        bodies[key] = _encode(request, output, refs, reply)
        refs = {**refs, output.kind: codec.reference(key, bodies[key])}
    return Done(
        id=request.address.id, attempt=request.attempt, objects=refs, reply=reply, usage=blobs.usage, inlined=bodies
    )


def _encode(request: Request, output: Output, refs: dict[str, Ref], reply: Reply) -> bytes:
    """An object's bytes. `refs` are the objects before it, for the answer in the last object."""
    last = output.kind == last_object(request)
    # Without attempt, usage and inlined objects, so that every attempt gives the same bytes.
    done = Done(id=request.address.id, attempt=0, objects=refs, reply=reply) if last else None
    return codec.encode(output.tensors, TaskHeader(task=request.address.id, done=done, origins=output.origins))


def _adopt(request: Request, kind: str, body: bytes, blobs: Counted) -> Done:
    key = keys.object_key(request.address.output, kind)
    return stored_answer(request, _require_own(request, key, body), codec.reference(key, body), blobs.usage)


def _require_own(request: Request, key: str, body: bytes) -> TaskHeader:
    """The object's header. Raises `ForeignObject` when another task wrote it, `CorruptObject` when it is damaged."""
    header = codec.header(body, key)
    codec.decode(body, key)
    require_task(request, header, key)
    return header
