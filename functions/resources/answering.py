"""Serves a resource's actions in a process of the resource, one after the other.

With a key the answer is stored before it is given, and the question is claimed meanwhile: whoever asks it too waits for
that answer. So each question is asked once, also when whoever asked it is gone by then.
"""

import time

from marless.functions.encoding import MessagePackDecoder, to_message_pack
from marless.functions.errors import CorruptObject, KeyTaken, NoSuchObject, StorageFault
from marless.functions.isolation.foreign_files import FOREIGN_FILES
from marless.functions.keys import answer_key
from marless.functions.resources.asking import Refusing
from marless.functions.resources.kept_answers import GETS, PUTS, KeptAnswer, keep_answer, kept_answer
from marless.functions.resources.kinds.kind import AskLater, NoAnswer, NotServing
from marless.functions.resources.kinds.registry import Kinds
from marless.functions.resources.port import MOST_BYTES, RESOURCES, ActionCall, Outcome
from marless.functions.storage_port import ClaimedBlobs
from marless.functions.text.redaction import redact
from marless.functions.text.tracebacks import show_traceback

_DECODER = MessagePackDecoder[ActionCall](ActionCall)
# Of a message about an error.
_LONGEST = 400
# Errors whose text says what they are.
_OURS = (CorruptObject, NoAnswer, NoSuchObject, StorageFault)

KINDS = Kinds()
"""What this process has begun: programs that wait for the next question, connections that are open."""


def handle(body: bytes, blobs: ClaimedBlobs) -> bytes:
    """Answers an encoded `ActionCall` with an encoded `Outcome`: how this attempt ended, and what the resource took."""
    call = _DECODER.decode(body)
    with RESOURCES.bind_thread(Refusing()):
        return to_message_pack(_outcome(call, blobs))


def _outcome(call: ActionCall, blobs: ClaimedBlobs) -> Outcome:
    began = time.perf_counter()
    try:
        if call.action.key:
            return _once(call, blobs)
        answer = _answer(call)
        return Outcome(answer, run_ms=_ms_since(began))
    except AskLater as error:
        pause_s = error.pause_s
        return Outcome(error=_one_line(error), run_ms=_ms_since(began), attempts=0, pause_s=pause_s, is_down=True)
    except (Exception, SystemExit) as error:  # whatever code of others raises is an answer that failed
        show_traceback(error)
        return Outcome(error=_one_line(error), run_ms=_ms_since(began), is_down=isinstance(error, NotServing))


def _once(call: ActionCall, blobs: ClaimedBlobs) -> Outcome:
    """The answer that is kept, or else the resource's, which is then kept."""
    action = call.action
    with blobs.claim(answer_key(action.key), call.resource.timeout_s):
        if (earlier := kept_answer(blobs, action.key)) is not None:
            return earlier.outcome(action.asked_by)
        RESOURCES.restart_clock()  # whoever had the claim has not answered
        began = time.perf_counter()
        answer, ms = _answer(call), _ms_since(began)
        code = FOREIGN_FILES.values()
        try:
            keep_answer(blobs, action.key, KeptAnswer(answer, action.asked_by, call.failed_ms + ms, call.failed, code))
        except KeyTaken:  # a claim ended before its holder did; both have asked, and the first answer counts
            if (earlier := kept_answer(blobs, action.key)) is not None:
                return Outcome(earlier.answer, run_ms=ms)
        return Outcome(answer, run_ms=ms, puts=PUTS, gets=GETS)


def _answer(call: ActionCall) -> bytes:
    """What the resource says; raises whatever code of others raises."""
    answer = KINDS.of(call.name, call.resource).answer(call.action, call.cores)
    if not isinstance(answer, bytes):
        raise NoAnswer(f"it answered {type(answer).__name__}, not bytes")
    if len(answer) > MOST_BYTES:
        raise NoAnswer(f"its answer has {len(answer):,} bytes, more than {MOST_BYTES >> 20} MiB")
    return answer


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000


def _one_line(error: BaseException) -> str:
    text = " ".join(redact(str(error)).split())
    line = text if isinstance(error, _OURS) else f"{type(error).__name__}: {text}"
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
