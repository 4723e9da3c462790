"""Answers that are objects of a run: a resource's answer, who asked first, and how long it took."""

import hashlib

import msgspec

from marless.functions import keys
from marless.functions.encoding import MessagePackDecoder, Undecodable, to_message_pack
from marless.functions.errors import CorruptObject, NoSuchObject
from marless.functions.isolation.foreign_files import FOREIGN_FILES
from marless.functions.resources.port import CallOutcome
from marless.functions.storage_port import Blobs

# The storage calls of one question on AWS: the claim and the answer, and a look for an answer between them.
PUTS, GETS = 2, 1


class KeptAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The object of an answer, in MessagePack."""

    answer: bytes
    asked_by: str
    """The id of the work item that asked first, and so pays."""
    ms: float
    """How long the resource worked at it, in all attempts."""
    failed: int = 0
    """How many attempts had failed before."""
    code: dict[str, str] = {}
    """The files of the code that answered, by name with a hash."""

    def outcome(self, asked_by: str) -> CallOutcome:
        """Return the outcome for the work item `asked_by`, which pays if it asked first, in any of its attempts."""
        if self.asked_by != asked_by:
            return CallOutcome(self.answer, paid=False, run_ms=self.ms, attempts=0)
        return CallOutcome(self.answer, run_ms=self.ms, attempts=self.failed + 1, puts=PUTS, gets=GETS)


_DECODER = MessagePackDecoder[KeptAnswer](KeptAnswer)


def question_key(identity: str, question: bytes) -> str:
    """The name of an answer: the hash of `identity` and `question`, which determine it, in hexadecimal digits."""
    return hashlib.sha256(bytes.fromhex(identity) + question).hexdigest()


def kept_answer(blobs: Blobs, question: str) -> KeptAnswer | None:
    """The answer to the question of this `question_key`, or None before it is stored.

    Raises `CorruptObject` for an object that holds none, and `StorageFault`.
    """
    key = keys.answer_key(question)
    try:
        answer = _DECODER.decode(blobs.get(key), key)
        FOREIGN_FILES.take_over(answer.code)
        return answer
    except NoSuchObject:
        return None
    except Undecodable as error:
        raise CorruptObject(f"{error}; delete it, and the resource is asked again") from error


def keep_answer(blobs: Blobs, question: str, answer: KeptAnswer) -> None:
    """Stores an answer. Errors of `Blobs.put` pass through."""
    blobs.put(keys.answer_key(question), to_message_pack(answer))
