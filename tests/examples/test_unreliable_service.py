"""The example's HTTP service: how it behaves on a bad day, as its description promises."""

import urllib.error
import urllib.request
from http.client import BadStatusLine, IncompleteRead

import pytest
from loopback import serving
from written_programs import episode

from examples.resources.unreliable_service import TROUBLES, Service
from marless.functions.encoding import to_json


def ask(service, key, timeout=10):
    address = f"http://127.0.0.1:{service.server_address[1]}"
    question = to_json(episode(1, "2 * x + 3"))
    request = urllib.request.Request(address, question, {"Idempotency-Key": key})
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return response.read()


def test_it_answers_a_question():
    with serving(Service()) as service:
        assert ask(service, "a") == b"1.0"
        assert service.asked == {"a": 1}


def test_too_frequent_questions_are_refused_with_retry_time():
    with serving(Service(per_s=0)) as service:
        with pytest.raises(urllib.error.HTTPError) as refusal:
            ask(service, "a")
        refusal.value.close()
        assert (refusal.value.code, refusal.value.headers["Retry-After"]) == (429, "1")
        assert (service.refused, len(service.asked)) == (1, 0)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_trouble_comes_once_and_then_the_answer(trouble):
    errors = {
        "cut off": IncompleteRead,
        "500": urllib.error.HTTPError,
        "not HTTP": BadStatusLine,
        "hangs": TimeoutError,
    }
    with serving(Service(every=1)) as service:
        service.asked.update(TROUBLES[: TROUBLES.index(trouble)])  # those met the troubles before it
        with pytest.raises(errors[trouble]) as refusal:
            ask(service, trouble, timeout=0.2 if trouble == "hangs" else 10)
        if trouble == "500":
            refusal.value.close()
        assert service.troubles == {trouble: 1}
        assert ask(service, trouble) == b"1.0"
