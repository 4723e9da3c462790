"""Values <-> bytes, as JSON and as MessagePack: the one place that knows in how many ways a library refuses bytes.

msgspec has one error, but raises others for text that is not UTF-8 and for values that are nested too deeply. Bytes
come from environments, from files that people edit and from disks that fail, so each caller must expect all of them.
Here they are one error, `Undecodable`. `make check` refuses the libraries' own functions elsewhere.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar, get_args, overload

import msgspec

_T = TypeVar("_T")

_REFUSALS = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)


# The version of a run's formats: plan.json, the manifest, the state, requests and answers. Raise
# it with a change that an earlier program would misread.
FORMAT_VERSION = 1


class Undecodable(ValueError):
    """The bytes hold no value of the expected type. The message says why, and where they came from as far as given."""


class WrittenByNewer(Undecodable):
    """The bytes have a `format_version` that only a newer program knows."""


def own_format() -> int | msgspec.UnsetType:
    """Return the `format_version` of a value that this program writes. The first version is not written."""
    return FORMAT_VERSION if FORMAT_VERSION > 1 else msgspec.UNSET


_VERSION = "format_version"


class _Version(msgspec.Struct):
    """The format version of a value. Any program may have written the other fields."""

    format_version: int | msgspec.UnsetType = msgspec.UNSET


# msgspec's names of types, in common words.
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_BOUNDS = {">=": "of at least", ">": "above", "<=": "of at most", "<": "below"}
_EXPECTED = re.compile(
    r"Expected `(?P<kinds>[^`]+)`(?:, got `(?P<other>\w+)`| (?P<length>of length )?(?P<bound>[<>]=?) (?P<limit>\S+))"
)


# The other messages of msgspec.
_OTHERS = {
    re.compile("Invalid enum value (.*)"): r"\1 is not one of its values",
    re.compile("Object contains unknown field `(.*)`"): r"there is no \1 here",
    re.compile(r"Expected `array` of length (\d+), got (\d+)"): r"a list of \1 values is needed, and it has \2",
    re.compile("Object missing required field `(.*)`"): r"\1 is missing",
}


class Mismatch(NamedTuple):
    """The reason why a value does not fit a type. `place` is for example ``horizon`` or ``widths[1]``, and `need` the
    requirement, such as ``a whole number of at least 1``. If `need` is '', `reason` has the library's message.
    """

    place: str
    need: str
    other: str
    reason: str

    def __str__(self) -> str:
        return self.below("")

    def below(self, table: str) -> str:
        """The message about a value in a table that has this dotted name."""
        place = ".".join(filter(None, (table, self.place)))
        fault = self.reason
        if self.need:
            fault = f"{_KINDS.get(self.other, self.other) if self.other else 'it'} is not {self.need}"
        return f"{place}: {fault}" if place else fault


def mismatch(error: msgspec.ValidationError) -> Mismatch:
    """msgspec's message, taken apart."""
    reason, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").removeprefix(".")
    if not (match := _EXPECTED.fullmatch(reason)):
        return Mismatch(place, "", "", _in_words(reason))
    kinds = [kind for kind in match["kinds"].split(" | ") if kind != "null"]
    # Where any number will do, a whole one need not be named.
    words = [_KINDS.get(kind, kind) for kind in kinds if kind != "int" or "float" not in kinds]
    need = " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    if match["bound"]:
        need = f"{need} {_BOUNDS[match['bound']]} {match['limit'].removesuffix('.0')}"
    if match["length"]:
        unit = "character" if kinds == ["str"] else "value"
        need = f"{need} {unit}{'s' * (match['limit'] != '1')}"
    return Mismatch(place, need, match["other"] or "", reason)


def _in_words(reason: str) -> str:
    matches = ((pattern.fullmatch(reason), words) for pattern, words in _OTHERS.items())
    return next((match.expand(words) for match, words in matches if match), reason)


class _Decoder(Generic[_T]):
    def __init__(self, library: Any, kind: Any) -> None:
        self._decoder, self._version = library.Decoder(kind), library.Decoder(_Version)
        self._is_versioned = any(
            _VERSION in getattr(member, "__struct_fields__", ()) for member in get_args(kind) or (kind,)
        )

    def decode(self, body: bytes | str, source: str = "") -> _T:
        """The value. Raises `Undecodable`, which names the `source`."""
        try:
            value: _T = self._decoder.decode(body)
        except _REFUSALS as error:
            _require_known(self._version_of(body), source)
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise Undecodable(f"{source} cannot be read: {reason}" if source else reason) from error
        _require_known(getattr(value, _VERSION, msgspec.UNSET) if self._is_versioned else msgspec.UNSET, source)
        return value

    def _version_of(self, body: bytes | str) -> int | msgspec.UnsetType:
        with suppress(*_REFUSALS):
            if self._is_versioned:
                version: int | msgspec.UnsetType = self._version.decode(body).format_version
                return version
        return msgspec.UNSET


def _require_known(version: int | msgspec.UnsetType, source: str) -> None:
    if version is not msgspec.UNSET and version > FORMAT_VERSION:
        newer = f"{source or 'it'} was written by a newer MARLess (format {version}; this one reads {FORMAT_VERSION})"
        raise WrittenByNewer(f"{newer}; install the newer one")


class JsonDecoder(_Decoder[_T]):
    """Reads JSON."""

    @overload
    def __init__(self, kind: type[_T]) -> None: ...
    @overload
    def __init__(self, kind: Any) -> None: ...
    def __init__(self, kind: Any) -> None:
        super().__init__(msgspec.json, kind)


class MessagePackDecoder(_Decoder[_T]):
    """Reads MessagePack."""

    @overload
    def __init__(self, kind: type[_T]) -> None: ...
    @overload
    def __init__(self, kind: Any) -> None: ...
    def __init__(self, kind: Any) -> None:
        super().__init__(msgspec.msgpack, kind)


# Amounts of money are exact decimals. Programs expect a number.
_JSON = msgspec.json.Encoder(decimal_format="number")
_MESSAGE_PACK = msgspec.msgpack.Encoder()


def from_json(body: bytes | str, kind: type[_T], source: str = "") -> _T:
    """The value of a JSON text. Raises `Undecodable`, which names the `source`."""
    return JsonDecoder(kind).decode(body, source)


def to_json(value: Any) -> bytes:
    """A value as JSON on one line. Text that is no valid Unicode is escaped like in Python: ``\\udcff``. It may come
    from `os.fsdecode` of a name that is not UTF-8, in the message of an exception."""
    return _encode(_JSON, value)


def to_json_text(value: Any) -> str:
    """`to_json` as text."""
    return to_json(value).decode()


def to_json_file(value: Any) -> bytes:
    """A value as JSON that people read too: indented, with a line break at the end."""
    return bytes(msgspec.json.format(to_json(value), indent=2)) + b"\n"


def to_message_pack(value: Any) -> bytes:
    """Return a value as MessagePack. `to_json` explains the text."""
    return _encode(_MESSAGE_PACK, value)


def _encode(encoder: Any, value: Any) -> bytes:
    try:
        return bytes(encoder.encode(value))
    except UnicodeEncodeError:
        return bytes(encoder.encode(_escape(value)))


def _escape(value: Any) -> Any:
    """The value with valid text. Sequences may be of another type, which is encoded in the same way."""
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case msgspec.Struct():
            fields = {name: _escape(getattr(value, name)) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
        case Mapping():
            return {_escape(key): _escape(item) for key, item in value.items()}
        case list() | tuple():
            return [_escape(item) for item in value]
    return value
