"""A task's environments ask bound resources, and the bill counts their questions."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from resource_hosts import asking, in_process

from marless.functions.errors import CorruptObject
from marless.functions.resources.call_meter import CallMeter
from marless.functions.resources.port import MOST_BYTES, RESOURCES, CallOutcome, ResourceCall, ResourceFault
from marless.functions.resources.settings import Resource

KEPT = {"judge": Resource(serve="judges:at_random", keep=True)}
pytestmark = pytest.mark.usefixtures("calls")
FIRST, SECOND = "run/000000/sample/0", "run/000000/sample/1"


def counts(meter):
    """Return the number of questions that the task paid, and of cached answers."""
    use = meter.use["judge"]
    return use.count, use.hits


def test_task_pays_cached_answer_once(tmp_path):
    meters = CallMeter(), CallMeter()
    with in_process(KEPT, tmp_path) as host:
        first = asking(KEPT, tmp_path, host, FIRST, meters[0])
        second = asking(KEPT, tmp_path, host, SECOND, meters[1])
        answers = first.call("judge", [b"a", b"b", b"a"])
        assert first.call("judge", [b"b"]) == [answers[1]]
        assert second.call("judge", [b"a", b"c"])[0] == answers[0]
    assert [counts(meter) for meter in meters] == [(2, 2), (1, 1)]


def test_repeated_attempt_pays_earlier_questions(tmp_path, calls):
    meter = CallMeter()
    with in_process(KEPT, tmp_path) as host:
        killed = asking(KEPT, tmp_path, host, FIRST)
        killed.call("judge", [b"a", b"b"])
        again = asking(KEPT, tmp_path, host, FIRST, meter)
        again.call("judge", [b"a"])
        again.call("judge", [b"b", b"c"])
    assert counts(meter) == (3, 0)
    assert len(calls()) == 3


def test_without_keep_every_answer_is_paid(tmp_path):
    resources, meter = {"judge": Resource(serve="judges:counted")}, CallMeter()
    with in_process(resources, tmp_path) as host:
        asking(resources, tmp_path, host, meter=meter).call("judge", [b"a", b"a"])
    assert counts(meter) == (2, 0)
    assert not (tmp_path / "answers").exists()


def test_a_kept_answer_is_read_without_a_host(tmp_path):
    with in_process(KEPT, tmp_path) as host:
        answers = asking(KEPT, tmp_path, host).call("judge", [b"a"])
    alone = asking(KEPT, tmp_path, None)
    assert alone.call("judge", [b"a"]) == answers
    with pytest.raises(ResourceFault, match="resource 'judge': nothing in this process serves resources"):
        alone.call("judge", [b"b"])


def test_an_answer_that_was_damaged_is_named(tmp_path):
    with in_process(KEPT, tmp_path) as host:
        asking(KEPT, tmp_path, host).call("judge", [b"a"])
        (path,) = (tmp_path / "answers").iterdir()
        path.write_bytes(b"rubbish")
        with pytest.raises(CorruptObject, match=rf"answers/{path.name} cannot be read: .* delete it"):
            asking(KEPT, tmp_path, host).call("judge", [b"a"])


@pytest.mark.parametrize(
    ("name", "questions", "says"),
    [
        ("jury", [b"a"], "the run has no resource 'jury'; it has judge"),
        ("judge", b"a", "resource 'judge' is asked a list of questions, each of which is bytes"),
        ("judge", iter([b"a"]), "resource 'judge' is asked a list of questions, each of which is bytes"),
        ("judge", None, "resource 'judge' is asked a list of questions, each of which is bytes"),
        ("judge", ["a"], "resource 'judge' is asked a list of questions, each of which is bytes"),
        ("judge", [bytes(MOST_BYTES + 1)], "resource 'judge': a question has more than 16 MiB"),
    ],
)
def test_what_cannot_be_asked_is_one_line(tmp_path, name, questions, says):
    with in_process(KEPT, tmp_path) as host, pytest.raises(ResourceFault, match=f"^{says}$"):
        asking(KEPT, tmp_path, host).call(name, questions)


def test_task_without_resources_says_how_to_set(tmp_path):
    with pytest.raises(ResourceFault, match=r"^the run has no resource 'judge': set resources\.judge$"):
        asking({}, tmp_path, None).call("judge", [b"a"])


def test_bound_resource_is_available_until_block_ends(tmp_path):
    resources = {"judge": Resource(serve="judges:length")}
    with in_process(resources, tmp_path) as host, RESOURCES.bind(asking(resources, tmp_path, host)):
        assert RESOURCES.call("judge", [b"abc"]) == [b"3"]
    with pytest.raises(ResourceFault, match="resource 'judge': no run is asked here"):
        RESOURCES.call("judge", [b"abc"])


class Half:
    def ask(self, name, actions):
        return [CallOutcome(b"yes") if place % 2 else CallOutcome(error="too hard") for place, _ in enumerate(actions)]


def test_a_batch_with_one_answer_missing_has_none(tmp_path):
    resources = {"judge": Resource(serve="judges:length")}
    with pytest.raises(ResourceFault, match=r"^resource 'judge': too hard$"):
        asking(resources, tmp_path, Half()).call("judge", [b"a", b"b"])


def test_action_tells_cache_and_asker(tmp_path):
    actions = []

    class Recording(Half):
        def ask(self, name, asked):
            actions.extend(asked)
            return [CallOutcome(b"yes") for _ in asked]

    asking(KEPT, tmp_path, Recording(), FIRST).call("judge", [b"a", b"a"])
    asking({"judge": Resource(serve="judges:length")}, tmp_path, Recording(), FIRST).call("judge", [b"a", b"a"])
    kept, *others = actions
    assert (kept.question, len(kept.key), kept.asked_by) == (b"a", 64, FIRST)
    assert others == 2 * [ResourceCall(b"a", asked_by=FIRST)]


def test_cached_answer_is_billed_with_failed_attempts(tmp_path, calls):
    """Also by an attempt at the task that finds it, as the one that asked was killed."""
    resources, meter = {"judge": Resource(serve="judges:raises_twice", keep=True)}, CallMeter()
    with in_process(resources, tmp_path) as host:
        asking(resources, tmp_path, host, FIRST).call("judge", [b"a"])
        asking(resources, tmp_path, host, FIRST, meter).call("judge", [b"a"])
    assert counts(meter) == (3, 0) and len(calls()) == 3


def test_task_threads_may_ask_together_in_own_process(tmp_path):
    resources = {"judge": Resource(serve="judges:slow")}
    with in_process(resources, tmp_path) as host, RESOURCES.bind(asking(resources, tmp_path, host)):

        def ask(begins_s, question):
            time.sleep(begins_s)
            return RESOURCES.call("judge", [question])

        with ThreadPoolExecutor(2) as threads:
            assert list(threads.map(ask, [0.0, 0.1], [b"0.2", b"0.3"])) == [[b"0.2"], [b"0.3"]]
    with pytest.raises(ResourceFault, match="resource 'judge': no run is asked here"):
        RESOURCES.call("judge", [b"a"])
