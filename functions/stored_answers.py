"""The answer of a task that is in the header of its last object, and when it is trusted.

The coordinator reads it there for a task without a waiting caller. A repeated attempt reads it if an earlier attempt
has finished.
"""

from collections.abc import Mapping

from marless.functions import keys
from marless.functions.errors import CorruptObject, ForeignObject
from marless.functions.messages import learner
from marless.functions.messages.actor import DescribeReply, DescribeTask, SampleReply, SampleTask
from marless.functions.messages.evaluator import EvaluateReply, EvaluateTask
from marless.functions.messages.exchange import Done, Reply, Request, TaskHeader
from marless.functions.messages.message import Ref
from marless.functions.messages.usage import Usage

# An object without arrays, which holds the answer of a task without a waiting caller.
REPLY = "reply"
_REPLIES: Mapping[type[Request], type[Reply]] = {
    DescribeTask: DescribeReply,
    learner.InitialiseTask: learner.InitialiseReply,
    SampleTask: SampleReply,
    learner.LearnTask: learner.LearnReply,
    learner.WholeTask: learner.WholeReply,
    learner.RegroupTask: learner.RegroupReply,
    EvaluateTask: EvaluateReply,
}


def last_object(request: Request) -> str | None:
    """Return the kind of the object with the task's answer in its header, or None for an unstored answer.

    Descriptions and evaluations store no object: they are reproducible.
    """
    return next(reversed(request.writes()), REPLY if request.report_to else None)


def stored_answer(request: Request, header: TaskHeader, last: Ref, usage: Usage) -> Done:
    """The answer in the header of a task's last object, `last`. Raises `ForeignObject` and `CorruptObject`.

    Functions that run foreign environments may write anything under the task's keys. So the answer must be of the
    requested kind and name no other keys.
    """
    require_task(request, header, last.key)
    done, kind = header.done, last_object(request)
    if done is None or kind is None:
        raise CorruptObject(f"{last.key} holds no answer although it is its task's last object")
    if problem := unlike(request, done.reply, objects := {**done.objects, kind: last}):
        raise CorruptObject(f"the answer in {last.key} {problem}")
    return Done(id=request.address.id, attempt=request.attempt, objects=objects, reply=done.reply, usage=usage)


def unlike(request: Request, reply: Reply, objects: Mapping[str, Ref]) -> str:
    """Return the difference of an answer from all valid answers to the request, such as ``names ...``, or ''."""
    if not isinstance(reply, _REPLIES[type(request)]):
        return "is that to another kind of task"
    if isinstance(reply, EvaluateReply) and len(reply.returns) != getattr(request, "episodes", 0):
        return "does not hold a return of each episode that was asked for"
    kinds = {*request.writes(), *([REPLY] if request.report_to else [])}
    if any(ref.key != keys.object_key(request.address.output, kind) for kind, ref in objects.items()):
        return "names an object that its task did not make"
    # Policies are stored where a stage trains them.
    optional = {REPLY, "policies"} if isinstance(request, learner.LearnTask) else {REPLY}
    return "" if kinds - optional <= objects.keys() <= kinds else "does not name the objects that its task makes"


def require_task(request: Request, header: TaskHeader, key: str) -> None:
    """Raises `ForeignObject` unless the task wrote the object of that header."""
    if header.task != request.address.id:
        raise ForeignObject(f"{key} was written by task {header.task}, not by {request.address.id}")
