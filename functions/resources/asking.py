"""Pass an environment's calls to the host of its process: look answers up, count, name faults."""

from collections.abc import Mapping, Sequence

from marless.functions.keys import answer_key
from marless.functions.messages.order import ResourceRef
from marless.functions.resources.call_meter import CallMeter
from marless.functions.resources.kept_answers import kept_answer, question_key
from marless.functions.resources.port import MOST_BYTES, CallOutcome, Host, ResourceCall, ResourceFault
from marless.functions.storage_port import Blobs


class Asking:
    """The resources of one task or program, which asks as `asked_by`. See `port.Resources`.

    An answer that the run keeps is read from its objects, and the resource is not asked. `meter` counts questions.
    """

    def __init__(
        self,
        refs: Mapping[str, ResourceRef],
        blobs: Blobs,
        host: Host | None,
        asked_by: str,
        meter: CallMeter | None = None,
    ) -> None:
        self._refs, self._blobs, self._host, self._asked_by = refs, blobs, host, asked_by
        self._meter = meter or CallMeter()

    def call(self, name: str, questions: Sequence[bytes]) -> list[bytes]:
        """See `port.Resources`."""
        if name not in self._refs:
            advice = f"; it has {', '.join(self._refs)}" if self._refs else f": set resources.{name}"
            raise ResourceFault(f"the run has no resource {name!r}{advice}")
        _require_questions(name, questions)
        if self._refs[name].keep:
            outcomes = self._once_each(name, questions)
        else:
            outcomes = self._from_host(name, [ResourceCall(each, asked_by=self._asked_by) for each in questions])
            for outcome in outcomes:
                self._meter.count(name, outcome)
        if errors := [outcome.error for outcome in outcomes if outcome.error]:
            raise ResourceFault(f"resource {name!r}: {errors[0]}")
        return [outcome.answer for outcome in outcomes]

    def kept_as(self, name: str, question: bytes) -> str:
        """See `port.Resources`."""
        ref = self._refs.get(name)
        return answer_key(question_key(ref.identity, question)) if ref and ref.keep else ""

    def _once_each(self, name: str, questions: Sequence[bytes]) -> list[CallOutcome]:
        keys = [question_key(self._refs[name].identity, question) for question in questions]
        distinct = dict(zip(keys, questions, strict=True))
        by_key = {
            key: answer.outcome(self._asked_by)
            for key in distinct
            if (answer := kept_answer(self._blobs, key)) is not None
        }
        calls = [ResourceCall(each, key, self._asked_by) for key, each in distinct.items() if key not in by_key]
        by_key |= dict(zip((call.key for call in calls), self._from_host(name, calls), strict=True))
        for key in keys:
            self._meter.count(name, by_key[key], key)
        return [by_key[key] for key in keys]

    def _from_host(self, name: str, calls: Sequence[ResourceCall]) -> list[CallOutcome]:
        if not calls:
            return []
        if self._host is None:
            raise ResourceFault(f"resource {name!r}: nothing in this process serves resources")
        asked_ms = self._meter.now_ms()
        outcomes = self._host.ask(name, calls)
        self._meter.time(name, outcomes, asked_ms)
        return outcomes


class Refusing:
    """The resources of a resource's own process: it would wait for a slot of another, which may wait for one of its."""

    def call(self, name: str, questions: Sequence[bytes]) -> list[bytes]:
        """Raises `ResourceFault`."""
        raise ResourceFault(f"resource {name!r}: a resource cannot ask a resource")

    def kept_as(self, name: str, question: bytes) -> str:
        """Nothing is."""
        return ""


def _require_questions(name: str, questions: Sequence[bytes]) -> None:
    is_list = isinstance(questions, Sequence) and not isinstance(questions, bytes | str)
    if not is_list or not all(isinstance(each, bytes) for each in questions):
        raise ResourceFault(f"resource {name!r} is asked a list of questions, each of which is bytes")
    if any(len(each) > MOST_BYTES for each in questions):
        raise ResourceFault(f"resource {name!r}: a question has more than {MOST_BYTES >> 20} MiB")
