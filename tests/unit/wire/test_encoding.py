"""Any bytes are a value of the expected type or one error, and any text arrives."""

import math
import os
import zlib
from contextlib import suppress
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marless.coordinator.core.state import State
from marless.coordinator.drive.ledger_items import StateEncoder, decode_state
from marless.coordinator.governor.study_state import StudyState
from marless.functions.completion import CompletionReport
from marless.functions.encoding import (
    JsonDecoder,
    MessagePackDecoder,
    Undecodable,
    WrittenByNewer,
    from_json,
    to_json,
    to_json_file,
    to_message_pack,
)
from marless.functions.messages.exchange import Answer, Done, Failed, Request, TaskHeader
from marless.functions.messages.learner import InitialiseReply
from marless.functions.messages.message import Ref
from marless.functions.resources.port import CallAttempt, CallOutcome, ResourceCall
from marless.functions.resources.settings import Resource
from marless.infra.local.pipe_messages import Ask, Inbox, Ready, ResourceAnswer, TaskCall, TaskEnded, frame
from marless.infra.local.processes.zygote import Died, Fork, Forked
from marless.runs.folder import Identity

FAILED = Failed(id="r/000001/sample/0", attempt=0, kind="environment", message="QQQQ", again=True)
REFS = {"learner": Ref(key="k", sha256="s", size=1)}
DONE = Done(id="r/000001/init", attempt=0, reply=InitialiseReply(), objects=REFS)
REPORT = CompletionReport(attempt=0, duration_ms=1, message="Q")
# Messages by the reader of each, with an example that has a replaceable text.
READ = {
    "answer": (JsonDecoder(Answer), to_json(FAILED)),
    "done": (JsonDecoder(Answer), to_json(DONE)),
    "header": (JsonDecoder(TaskHeader), to_json(TaskHeader(task="QQQQ", done=DONE))),
    "request": (JsonDecoder(Request), b'{"type":"describe","id":"QQQQ"}'),
    "report": (MessagePackDecoder(CompletionReport), to_message_pack(REPORT)),
    "call": (MessagePackDecoder(TaskCall), to_message_pack(TaskCall("QQQQ"))),
    "ended": (MessagePackDecoder(Ready | TaskEnded), to_message_pack(TaskEnded(1.0, 1.0, 1.0, 1.0, "QQQQ"))),
    "ready": (MessagePackDecoder(Ready | TaskEnded), to_message_pack(Ready("QQQQ", 1.0))),
    "ask": (MessagePackDecoder(Ready | TaskEnded | Ask), to_message_pack(Ask("QQQQ", 1))),
    "told": (MessagePackDecoder(TaskCall | ResourceAnswer), to_message_pack(ResourceAnswer(1, 2))),
    "outcome": (MessagePackDecoder(CallOutcome), to_message_pack(CallOutcome(error="QQQQ"))),
    "action call": (
        MessagePackDecoder(CallAttempt),
        to_message_pack(CallAttempt("QQQQ", Resource(serve="a:b"), ResourceCall(b"question"))),
    ),
    "forked": (MessagePackDecoder(Forked | Died), to_message_pack(Forked(1, 2))),
    "fork": (MessagePackDecoder(Fork), to_message_pack(Fork(1))),
}
HOSTILE = {
    "nothing": b"",
    "text that is not UTF-8": b'{"type":"failed","message":"\xff\xfe"}',
    "deep": b"[" * 500_000,
    "deep unknown member": b'{"a":' * 500_000,
    "deep MessagePack": b"\x91" * 500_000,
    "a key that cannot be one": b"\x81\x80\x01",
    "an impossible time": b"\xc7\x0c\xff" + b"\xff" * 12,
    "half a surrogate": b'{"type":"failed","message":"\\udcff"}',
    "a long number": b'{"attempt":' + b"9" * 5000 + b"}",
    "more than there is": b"\xdd\xff\xff\xff\xff",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=list(HOSTILE))
@pytest.mark.parametrize("kind", READ)
def test_hostile_bytes_are_one_error_whatever_reads_them(kind, body):
    with pytest.raises(Undecodable):
        READ[kind][0].decode(body)


@pytest.mark.parametrize("kind", READ)
@given(where=st.integers(0, 10_000), what=st.binary(max_size=6), cut=st.booleans())
def test_damaged_message_is_other_value_or_error(kind, where, what, cut):
    decoder, body = READ[kind]
    where %= len(body)
    damaged = body[:where] + what + (b"" if cut else body[where + len(what) :])
    try:
        decoder.decode(damaged)
    except Undecodable as error:
        assert str(error)


def test_the_error_names_the_source_and_the_reason():
    with pytest.raises(Undecodable, match=r"^its answer cannot be read: .*utf-8"):
        from_json(b'"\xff"', str, "its answer")
    with pytest.raises(Undecodable, match=r"^plan.json cannot be read: it is nested too deeply$"):
        from_json(b"[" * 10_000, list, "plan.json")


@pytest.mark.parametrize("number", [math.nan, math.inf, -1.0, 1e300])
def test_frame_with_impossible_measurement_is_refused(number):
    with pytest.raises(Undecodable):
        READ["ended"][0].decode(to_message_pack(TaskEnded(number, 1.0, 1.0, 1.0)))


# os.fsdecode gives a lone surrogate for a byte of a name that is not UTF-8.
NAME = os.fsdecode(b"b\xff")


@pytest.mark.parametrize("encode, decoder", [(to_json, JsonDecoder), (to_message_pack, MessagePackDecoder)])
def test_invalid_unicode_is_escaped_everywhere(encode, decoder):
    said = msgspec.structs.replace(FAILED, message=f"no file {NAME}")
    assert decoder(Answer).decode(encode(said)).message == "no file b\\udcff"
    nested = {"a": [NAME, (NAME,)], NAME: {"b": NAME}, "n": 1.5, "o": None}
    assert decoder(dict).decode(encode(nested)) == {
        "a": ["b\\udcff", ["b\\udcff"]],
        "b\\udcff": {"b": "b\\udcff"},
        "n": 1.5,
        "o": None,
    }


def test_encoded_text_stays_next_to_escaped_text():
    class Manifest(msgspec.Struct, tag="manifest"):
        run: str
        identity: msgspec.Raw

    assert (
        to_json(Manifest(NAME, msgspec.Raw(b'{"a":1}'))) == b'{"type":"manifest","run":"b\\\\udcff","identity":{"a":1}}'
    )


def test_exact_amount_is_number_and_file_ends_line():
    assert to_json({"dollars": Decimal("0.10")}) == b'{"dollars":0.10}'
    assert to_json_file({"a": [1]}) == b'{\n  "a": [\n    1\n  ]\n}\n'


def test_frame_carries_invalid_unicode():
    near, far = os.pipe()
    os.write(far, frame(TaskEnded(1.0, 1.0, 1.0, 1.0, f"OSError: {NAME}"), b"body"))
    os.close(far)
    inbox = Inbox(near)
    inbox.fill()
    ((header, body),) = inbox.frames()
    os.close(near)
    assert READ["ended"][0].decode(header).error == "OSError: b\\udcff" and body == b"body"


@pytest.mark.parametrize("piece", [7_000, 65_536, 1 << 20])
def test_frames_are_whole_in_any_pieces(piece):
    bodies = [bytes([number]) * size for number, size in enumerate((0, 70_000, 1, 65_536, 65_537, 300_000, 40))]
    data = b"".join(frame(TaskEnded(1.0, 1.0, 1.0, 1.0), body) for body in bodies)
    near, far = os.pipe()
    os.set_blocking(near, False)
    os.set_blocking(far, False)
    inbox, arrived = Inbox(near), []
    while data:
        data = data[os.write(far, data[:piece]) :]
        with suppress(BlockingIOError):
            while inbox.fill():
                arrived += [body for _, body in inbox.frames()]
    os.close(near)
    os.close(far)
    assert arrived == bodies and not inbox.partial


PLAN = {
    "run": "r",
    "backend": "local",
    "code_sha256": "",
    "commit": None,
    "environment_fingerprint": {"python": "3", "numpy": "2", "machine": "m", "environment": None},
    "created": "2026-11-28T00:00:00+00:00",
    "configs": [],
}
ADDRESS = {"id": "r/0", "run": "r", "round": 0, "output": "o", "seed": 1}
# Stored and sent messages, each with its required fields.
VERSIONED = {
    "state": (State, {}),
    "plan.json": (Identity, PLAN),
    "request": (Request, {"type": "describe", "address": ADDRESS, "environment": {"name": "toy/signal"}}),
    "answer": (Answer, {"type": "failed", "id": "r/0", "attempt": 0, "kind": "request", "message": "", "again": False}),
    "state of a study": (StudyState, {}),
}


@pytest.mark.parametrize("name", VERSIONED)
@pytest.mark.parametrize("later", [{}, {"a_field_of_later": 1}])
def test_value_of_newer_program_is_named(name, later):
    kind, fields = VERSIONED[name]
    JsonDecoder(kind).decode(to_json(fields | {"format_version": 1}))
    for decoder, encode in ((JsonDecoder, to_json), (MessagePackDecoder, to_message_pack)):
        with pytest.raises(WrittenByNewer) as error:
            decoder(kind).decode(encode({**fields, "format_version": 2, **later}), "it all")
        assert str(error.value).startswith("it all was written by a newer MARLess (format 2; this one reads 1)")


@pytest.mark.parametrize("name", VERSIONED)
@pytest.mark.parametrize("more", [{"a_field_of_later": 1}, {"format_version": "2"}, {"format_version": 1, "other": 1}])
def test_other_unreadable_value_is_not_called_newer(name, more):
    kind, fields = VERSIONED[name]
    with pytest.raises(Undecodable) as error:
        JsonDecoder(kind).decode(to_json({**fields, **more}))
    assert not isinstance(error.value, WrittenByNewer)


def test_first_version_is_omitted_for_earlier_programs():
    assert to_json(State()) == b"{}"
    assert b"format_version" not in to_json_file(JsonDecoder(Identity).decode(to_json(PLAN)))


def test_version_is_stored_with_state_and_checked():
    state = State(format_version=2, round=3)
    body = StateEncoder(state).encode(state)
    assert zlib.decompress(body).count(b"format_version") == 1
    with pytest.raises(WrittenByNewer, match="the ledger was written by a newer MARLess"):
        decode_state(body)
