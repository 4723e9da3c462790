"""Whatever bytes arrive, they are a value of the expected type or one error; whatever text is sent, it arrives."""

import math
import os
from contextlib import suppress
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.completion import CompletionReport
from functions.encoding import (
    JsonDecoder,
    MessagePackDecoder,
    Undecodable,
    from_json,
    to_json,
    to_json_file,
    to_message_pack,
)
from functions.messages.exchange import Answer, Done, Failed, Request
from functions.messages.headers import TaskHeader
from functions.messages.learner import InitialiseReply
from functions.messages.message import Ref
from functions.resources.port import Action, ActionCall, Outcome
from functions.resources.settings import Resource
from infra.local.pipe_messages import Ask, Call, Ended, Inbox, Ready, Told, frame
from infra.local.processes.zygote import Died, Fork, Forked

FAILED = Failed(id="r/000001/sample/0", attempt=0, kind="environment", message="QQQQ", again=True)
REFS = {"learner": Ref(key="k", sha256="s", size=1)}
DONE = Done(id="r/000001/init", attempt=0, reply=InitialiseReply(), objects=REFS)
REPORT = CompletionReport(attempt=0, duration_ms=1, message="Q")
# Messages by the reader of each, with an example whose text can be replaced.
READ = {
    "answer": (JsonDecoder(Answer), to_json(FAILED)),
    "done": (JsonDecoder(Answer), to_json(DONE)),
    "header": (JsonDecoder(TaskHeader), to_json(TaskHeader(task="QQQQ", done=DONE))),
    "request": (JsonDecoder(Request), b'{"type":"describe","id":"QQQQ"}'),
    "report": (MessagePackDecoder(CompletionReport), to_message_pack(REPORT)),
    "call": (MessagePackDecoder(Call), to_message_pack(Call("QQQQ"))),
    "ended": (MessagePackDecoder(Ready | Ended), to_message_pack(Ended(1.0, 1.0, 1.0, 1.0, "QQQQ"))),
    "ready": (MessagePackDecoder(Ready | Ended), to_message_pack(Ready("QQQQ", 1.0))),
    "ask": (MessagePackDecoder(Ready | Ended | Ask), to_message_pack(Ask("QQQQ", 1))),
    "told": (MessagePackDecoder(Call | Told), to_message_pack(Told(1, 2))),
    "outcome": (MessagePackDecoder(Outcome), to_message_pack(Outcome(error="QQQQ"))),
    "action call": (
        MessagePackDecoder(ActionCall),
        to_message_pack(ActionCall("QQQQ", Resource(serve="a:b"), Action(b"question"))),
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
def test_a_damaged_message_is_another_value_or_one_error(kind, where, what, cut):
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
def test_a_frame_with_a_measurement_that_nobody_can_have_made_is_refused(number):
    with pytest.raises(Undecodable):
        READ["ended"][0].decode(to_message_pack(Ended(number, 1.0, 1.0, 1.0)))


# os.fsdecode gives a lone surrogate for a byte of a name that is not UTF-8.
NAME = os.fsdecode(b"b\xff")


@pytest.mark.parametrize("encode, decoder", [(to_json, JsonDecoder), (to_message_pack, MessagePackDecoder)])
def test_text_that_is_no_valid_unicode_is_escaped_wherever_it_stands(encode, decoder):
    said = msgspec.structs.replace(FAILED, message=f"no file {NAME}")
    assert decoder(Answer).decode(encode(said)).message == "no file b\\udcff"
    nested = {"a": [NAME, (NAME,)], NAME: {"b": NAME}, "n": 1.5, "o": None}
    assert decoder(dict).decode(encode(nested)) == {
        "a": ["b\\udcff", ["b\\udcff"]],
        "b\\udcff": {"b": "b\\udcff"},
        "n": 1.5,
        "o": None,
    }


def test_what_is_encoded_already_stays_beside_text_that_is_escaped():
    class Manifest(msgspec.Struct, tag="manifest"):
        run: str
        identity: msgspec.Raw

    assert (
        to_json(Manifest(NAME, msgspec.Raw(b'{"a":1}'))) == b'{"type":"manifest","run":"b\\\\udcff","identity":{"a":1}}'
    )


def test_an_exact_amount_is_a_number_and_a_file_ends_with_a_line_break():
    assert to_json({"dollars": Decimal("0.10")}) == b'{"dollars":0.10}'
    assert to_json_file({"a": [1]}) == b'{\n  "a": [\n    1\n  ]\n}\n'


def test_a_frame_carries_text_that_is_no_valid_unicode():
    near, far = os.pipe()
    os.write(far, frame(Ended(1.0, 1.0, 1.0, 1.0, f"OSError: {NAME}"), b"body"))
    os.close(far)
    inbox = Inbox(near)
    inbox.fill()
    ((header, body),) = inbox.frames()
    os.close(near)
    assert READ["ended"][0].decode(header).error == "OSError: b\\udcff" and body == b"body"


@pytest.mark.parametrize("piece", [7_000, 65_536, 1 << 20])
def test_frames_are_whole_however_long_they_are_and_in_whatever_pieces_they_arrive(piece):
    bodies = [bytes([number]) * size for number, size in enumerate((0, 70_000, 1, 65_536, 65_537, 300_000, 40))]
    data = b"".join(frame(Ended(1.0, 1.0, 1.0, 1.0), body) for body in bodies)
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
