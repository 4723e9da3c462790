"""Named arrays and a header <-> bytes in the safetensors format, which runs no code on reading. Small arrays in
messages."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from marless.functions import keys
from marless.functions.encoding import JsonDecoder, Undecodable, from_json, to_json, to_json_text
from marless.functions.environments.base import EnvSpec
from marless.functions.errors import CorruptObject, ForeignObject
from marless.functions.messages.exchange import SCHEMA, CallsHeader, TaskHeader
from marless.functions.messages.message import Ref, Table

if TYPE_CHECKING:
    from marless.functions.storage_port import Blobs

Tensors = dict[str, NDArray[Any]]
_Header = TypeVar("_Header", TaskHeader, CallsHeader)

# One metadata entry only: the library writes several in the order of a hash map, which would change the bytes.
_HEADER = "marless"
_TABLE_DTYPE = np.dtype("<f4")
# The format's names of types. Arrays of the first types come first.
_DTYPES = {
    np.dtype(kind): (place, name)
    for place, (kind, name) in enumerate(
        (("u8", "U64"), ("i8", "I64"), ("f8", "F64"), ("f4", "F32"), ("u4", "U32"), ("i4", "I32"), ("f2", "F16"),
         ("u2", "U16"), ("i2", "I16"), ("i1", "I8"), ("u1", "U8"), ("?", "BOOL"))
    )
}  # fmt: skip


def encode(tensors: Mapping[str, NDArray[Any]], header: TaskHeader | CallsHeader) -> bytes:
    """Return the object's bytes. Equal inputs give equal bytes.

    `safetensors.numpy.save` returns the same bytes. Here arrays are copied once instead of twice.
    """
    arrays = sorted((*_DTYPES[array.dtype], name, np.ascontiguousarray(array)) for name, array in tensors.items())
    entries: dict[str, Any] = {"__metadata__": {_HEADER: to_json_text(header)}}
    end = 0
    for _, dtype, name, array in arrays:
        begin, end = end, end + array.nbytes
        entries[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": (begin, end)}
    start = to_json(entries)
    start += b" " * (-len(start) % 8)
    return b"".join([len(start).to_bytes(8, "little"), start, *(array.data for *_, array in arrays)])


def decode(body: bytes, key: str) -> Tensors:
    """The object's arrays. Raises `CorruptObject` naming `key`."""
    try:
        return dict(load(body))
    except (SafetensorError, ValueError, KeyError) as error:
        raise CorruptObject(f"{key} is not a safetensors object: {error}") from error


class _Start(msgspec.Struct):
    """The start of the format. Its other members describe the tensors."""

    metadata: dict[str, str] = msgspec.field(name="__metadata__", default_factory=dict)


_STARTS = JsonDecoder(_Start)


def metadata(body: bytes) -> dict[str, str]:
    """Return the metadata of a file in the safetensors format. Raises `Undecodable`."""
    return _STARTS.decode(body[8 : 8 + int.from_bytes(body[:8], "little")]).metadata


def header(body: bytes, key: str) -> TaskHeader:
    """The header. Raises `CorruptObject` naming `key` when there is none or it has another schema."""
    return _header(body, key, TaskHeader)


def calls_header(body: bytes, key: str, task: str) -> CallsHeader:
    """The header of the object with a task's actions. Raises the errors of `header`, and `ForeignObject` for another
    task."""
    actions = _header(body, key, CallsHeader)
    if actions.task != task:
        raise ForeignObject(f"{key} was written by task {actions.task}, not by {task}")
    return actions


def _header(body: bytes, key: str, kind: type[_Header]) -> _Header:
    try:
        decoded = from_json(metadata(body)[_HEADER], kind)
    except (Undecodable, KeyError) as error:
        raise CorruptObject(f"{key} carries no header of this version: {error}") from error
    if decoded.schema != SCHEMA:
        raise CorruptObject(f"{key} is of schema {decoded.schema}; this version reads {SCHEMA}")
    return decoded


def reference(key: str, body: bytes) -> Ref:
    """The object's reference for other messages."""
    return Ref(key=key, sha256=hashlib.sha256(body).hexdigest(), size=len(body))


def verify(ref: Ref, body: bytes) -> bytes:
    """Return `body`. Raises `CorruptObject` if its hash differs from the hash in `ref`."""
    if hashlib.sha256(body).hexdigest() != ref.sha256:
        raise CorruptObject(f"{ref.key} is not the object the run recorded (its hash differs)")
    return body


def fetch(blobs: "Blobs", ref: Ref) -> bytes:
    """Return the object's bytes. Raises `CorruptObject` if size or hash differ from `ref`, and the errors of
    `Blobs.get`."""
    try:
        body = blobs.get(ref.key, ref.size)
    except ValueError as error:  # as an earlier version may have recorded it
        raise CorruptObject(f"the run recorded an object that cannot be: {error}") from error
    return verify(ref, body)


def fetch_tensors(blobs: "Blobs", refs: Iterable[Ref]) -> Tensors:
    """Return the tensors of several objects. Raises the errors of `fetch`."""
    return {name: array for ref in refs for name, array in decode(fetch(blobs, ref), ref.key).items()}


def tensors_sha256(tensors: Mapping[str, NDArray[Any]]) -> str:
    """One hash over all tensors in the order of their names, independent of the objects that hold them."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def pack_table(array: NDArray[Any]) -> Table:
    """An array of any shape as float32."""
    return Table(shape=array.shape, data=np.ascontiguousarray(array, _TABLE_DTYPE).tobytes())


def unpack_table(table: Table) -> NDArray[np.float32]:
    """The array. Raises `ValueError` when its bytes do not fill its shape."""
    return np.frombuffer(table.data, _TABLE_DTYPE).reshape(table.shape).astype(np.float32)


def dataset_key(spec: EnvSpec) -> str:
    """Return the key of a run's dataset, which depends on the description of its task.

    So a run of another task does not read it. It is a separate kind, because the bucket deletes old trajectories by
    itself. template.yaml lets actors and learners read it. The environment's own spaces, entities, names and turns do
    not count, because columns have the numbers of networks.
    """
    classes = tuple(msgspec.structs.replace(kind, spaces=None) for kind in spec.classes)
    plain = msgspec.to_builtins(msgspec.structs.replace(spec, keys=(), classes=classes))
    del plain["turns"]
    for kind in plain["classes"]:
        del kind["entities"]
    return keys.object_key(f"rounds/offline-{hashlib.sha256(to_json(plain)).hexdigest()[:16]}", "dataset")
