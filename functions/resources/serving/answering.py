"""Serves a resource's calls in a process of the resource, one after the other.

With a key the answer is stored before it is given, and the question is claimed meanwhile. Other processes that ask it
wait for that answer. So each question is asked once, also if the process that asked it has ended.
"""

import time

from marless.functions.encoding import MessagePackDecoder, to_message_pack
from marless.functions.errors import CorruptObject, KeyTaken, NoSuchObject, StorageFault
from marless.functions.isolation.foreign_files import FOREIGN_FILES
from marless.functions.keys import answer_key
from marless.functions.resources.asking import Refusing
from marless.functions.resources.kept_answers import GETS, PUTS, KeptAnswer, keep_answer, kept_answer
from marless.functions.resources.port import MOST_BYTES, RESOURCES, CallAttempt, CallOutcome
from marless.functions.resources.serving.kinds.kind import AskLater, NoAnswer, NotServing
from marless.functions.resources.serving.kinds.registry import Kinds
from marless.functions.storage_port import ClaimedBlobs
from marless.functions.text.redaction import redact
from marless.functions.text.tracebacks import show_traceback

_DECODER = MessagePackDecoder[CallAttempt](CallAttempt)
# Of a message about an error.
_LONGEST = 400
# Errors with a text that says enough.
_OURS = (CorruptObject, NoAnswer, NoSuchObject, StorageFault)

KINDS = Kinds()
"""The running programs and open connections of this process."""


def handle(body: bytes, blobs: ClaimedBlobs) -> bytes:
    """Answer an encoded `CallAttempt` with an encoded `CallOutcome`: its end and its cost."""
    attempt = _DECODER.decode(body)
    with RESOURCES.bind_thread(Refusing()):
        return to_message_pack(_outcome(attempt, blobs))


def _outcome(attempt: CallAttempt, blobs: ClaimedBlobs) -> CallOutcome:
    began = time.perf_counter()
    try:
        if attempt.call.key:
            return _once(attempt, blobs)
        return CallOutcome(_answer(attempt), run_ms=_ms_since(began))
    except AskLater as error:
        pause_s = error.pause_s
        return CallOutcome(error=_one_line(error), run_ms=_ms_since(began), attempts=0, pause_s=pause_s, is_down=True)
    except (Exception, SystemExit) as error:  # any error of foreign code is a failed answer
        show_traceback(error)
        return CallOutcome(error=_one_line(error), run_ms=_ms_since(began), is_down=isinstance(error, NotServing))


def _once(attempt: CallAttempt, blobs: ClaimedBlobs) -> CallOutcome:
    call = attempt.call
    with blobs.claim(answer_key(call.key), attempt.resource.timeout_s):
        if (earlier := kept_answer(blobs, call.key)) is not None:
            return earlier.outcome(call.asked_by)
        RESOURCES.restart_clock()  # the holder of the claim has not answered
        began = time.perf_counter()
        answer, ms = _answer(attempt), _ms_since(began)
        code = FOREIGN_FILES.values()
        try:
            keep_answer(
                blobs, call.key, KeptAnswer(answer, call.asked_by, attempt.failed_ms + ms, attempt.failed, code)
            )
        except KeyTaken:  # a claim ended before its holder did. Both have asked, and the first answer counts
            if (earlier := kept_answer(blobs, call.key)) is not None:
                return CallOutcome(earlier.answer, run_ms=ms)
        return CallOutcome(answer, run_ms=ms, puts=PUTS, gets=GETS)


def _answer(attempt: CallAttempt) -> bytes:
    answer = KINDS.of(attempt.name, attempt.resource).answer(attempt.call, attempt.cores)
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
