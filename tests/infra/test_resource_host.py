"""A caller asks a resource's function, and Lambda throttles it."""

import threading

import pytest
from stand_in import answer, json_error, standing

from marless.functions.resources.port import ResourceCall
from marless.infra.aws.resource_host import LambdaResources
from marless.infra.aws.resource_settings import AskableFunction
from marless.infra.entry.time_limit import AttemptTimedOut, time_limit

THROTTLE = json_error("429 Too Many Requests", "TooManyRequestsException", "Rate Exceeded.")


def unused(environ, start):
    return answer("500 Internal Server Error")(environ, start, None)


def test_whoever_is_interrupted_asks_no_more():
    function = AskableFunction("marless-one_judge:1", slots=2, timeout_s=60.0, attempts=3)
    with standing(unused) as service:
        service.do("POST", *[THROTTLE] * 10_000)
        service.cloud.client("lambda")  # reads the service's model, which takes long
        before = {*threading.enumerate()}
        with pytest.raises(AttemptTimedOut), time_limit(2.0):
            LambdaResources(service.cloud, {"judge": function}).ask(
                "judge", [ResourceCall(each) for each in (b"a", b"b", b"c")]
            )
        asking = [each for each in {*threading.enumerate()} - before if "ThreadPoolExecutor" in each.name]
        for each in asking:
            each.join(30.0)
        assert len(asking) == 2 and not any(each.is_alive() for each in asking)
        assert {*service.seen} == {"POST"}
