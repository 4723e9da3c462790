"""Requests to the emulated Lambda service: names and versions, sizes, refusals, and forwarded requests."""

import json
from dataclasses import replace

import pytest
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session
from emulated_service import ARN, DEEDS, refusal, serving

from aws_emulator.lambda_service.versions import Registry


@pytest.mark.parametrize(
    ("name", "qualifier", "arn"),
    [
        ("deeds", None, ARN),
        ("deeds", "live", f"{ARN}:live"),
        ("deeds:live", None, f"{ARN}:live"),
        ("123456789012:function:deeds", None, ARN),
        (ARN, None, ARN),
        (f"{ARN}:1", None, f"{ARN}:1"),
        (f"{ARN}:1", "1", f"{ARN}:1"),
        (ARN, "$LATEST", f"{ARN}:$LATEST"),
    ],
)
def test_every_form_of_a_name_finds_the_function(shared, name, qualifier, arn):
    arguments = {"Qualifier": qualifier} if qualifier else {}
    answer = shared.client.invoke(FunctionName=name, **arguments)
    assert answer["StatusCode"] == 200
    assert answer["ExecutedVersion"] == "1"
    described = json.loads(answer["Payload"].read())
    assert described["arn"] == arn
    assert described["request"] == answer["ResponseMetadata"]["RequestId"]
    assert described["event"] == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"FunctionName": "nobody"},
        {"FunctionName": "deeds", "Qualifier": "2"},
        {"FunctionName": "deeds:old"},
        {"FunctionName": ARN.replace("us-east-1", "eu-west-1")},
        {"FunctionName": ARN.replace("123456789012", "210987654321")},
    ],
)
@pytest.mark.parametrize("kind", ["RequestResponse", "Event", "DryRun"])
def test_who_is_not_there_is_not_found(shared, arguments, kind):
    status, code, response = refusal(shared.client.invoke, InvocationType=kind, **arguments)
    assert (status, code) == (404, "ResourceNotFoundException")
    assert response["Error"]["Message"].startswith("Function not found: ")
    assert response["Type"] == "User"


def test_newest_version_is_live_and_older_versions_stay():
    registry = Registry("us-east-1", "123456789012", 1000)
    registry.publish(DEEDS)
    registry.publish(replace(DEEDS, version="2"))
    versions = [registry.resolve("deeds", qualifier).function.version for qualifier in (None, "live", "1", "2")]
    assert versions == ["2", "2", "1", "2"]


def test_a_published_version_does_not_change():
    registry = Registry("us-east-1", "123456789012", 1000)
    registry.publish(DEEDS)
    with pytest.raises(ValueError, match="version 1 of deeds is published"):
        registry.publish(replace(DEEDS, memory_mb=256))
    registry.publish(replace(DEEDS, max_retries=2))  # set outside the versions
    assert registry.resolve("deeds", "1").function.max_retries == 2


def test_a_hundred_executions_stay_unreserved():
    registry = Registry("us-east-1", "123456789012", 1000)
    registry.reserve("deeds", 900)
    registry.reserve("deeds", 900)
    with pytest.raises(ValueError, match=r"function other .* below its minimum value of \[100\]"):
        registry.reserve("other", 1)
    assert (registry.shared_concurrency(), registry.reservation("other")) == (100, None)
    registry.reserve("deeds", 899)
    registry.reserve("other", 1)
    registry.reserve("deeds", None)
    registry.remove("other")
    assert registry.shared_concurrency() == 1000


def test_an_account_of_ten_executions_reserves_none():
    registry = Registry("us-east-1", "123456789012", 10)
    with pytest.raises(ValueError, match=r"below its minimum value of \[10\]"):
        registry.reserve("deeds", 1)
    registry.reserve("deeds", 0)  # which only stops the function
    assert registry.shared_concurrency() == 10


def sized(length):
    """An event of `length` bytes that requests no action."""
    head, foot = b'{"do":"nothing","x":"', b'"}'
    return head + b"a" * (length - len(head) - len(foot)) + foot


@pytest.mark.parametrize(
    ("kind", "limit", "status"), [("RequestResponse", 6 * 1024 * 1024, 200), ("Event", 1024 * 1024, 202)]
)
def test_payloads_have_a_limit_to_the_byte(shared, kind, limit, status):
    arguments = {"FunctionName": "deeds", "InvocationType": kind}
    assert shared.client.invoke(**arguments, Payload=sized(limit))["StatusCode"] == status
    refused, code, response = refusal(shared.client.invoke, **arguments, Payload=sized(limit) + b" ")
    assert (refused, code) == (413, "RequestEntityTooLargeException")
    assert response["Error"]["Message"] == (
        f"{limit + 1} byte payload is too large for the {kind} invocation type (limit {limit} bytes)"
    )


def test_answer_has_at_most_six_megabytes():
    with serving() as service:
        service.lambdas.publish(DEEDS)
        assert len(service.invoke(do="fill", length=6_291_000)["Payload"]) == 6_291_000
        answer = service.invoke(do="fill", length=6_291_600)
        assert service.invoke()["Payload"]["calls"] == 1
    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"]["errorType"] == "Function.ResponseSizeTooLarge"
    assert "(6291556 bytes)" in answer["Payload"]["errorMessage"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"FunctionName": "deeds:live", "Qualifier": "1"}, "InvalidParameterValueException"),  # two qualifiers
        ({"FunctionName": "deeds", "InvocationType": "Sometime"}, "InvalidParameterValueException"),
        ({"FunctionName": "deeds", "Payload": b"{"}, "InvalidRequestContentException"),
        ({"FunctionName": "deeds", "Payload": b"{", "InvocationType": "Event"}, "InvalidRequestContentException"),
    ],
)
def test_what_makes_no_sense_is_refused(shared, arguments, expected):
    status, code, _ = refusal(shared.client.invoke, **arguments)
    assert (status, code) == (400, expected)


def test_a_dry_run_runs_nothing(shared):
    before = len(shared.logs)
    answer = shared.client.invoke(FunctionName="deeds", InvocationType="DryRun")
    assert (answer["StatusCode"], answer["Payload"].read()) == (204, b"")
    assert len(shared.logs) == before


def test_account_settings_name_the_limits(shared):
    settings = shared.client.get_account_settings()
    assert settings["AccountLimit"]["ConcurrentExecutions"] == 1000
    assert settings["AccountLimit"]["UnreservedConcurrentExecutions"] == 1000
    assert settings["AccountUsage"]["FunctionCount"] == 1


def test_all_else_is_passed_on(shared):
    for method, path in (("GET", "/2015-03-31/functions/deeds"), ("POST", "/2015-03-31/functions"), ("GET", "/")):
        answer = URLLib3Session().send(AWSRequest(method, f"{shared.endpoint}{path}").prepare())
        assert (answer.status_code, answer.text) == (200, "another service")
