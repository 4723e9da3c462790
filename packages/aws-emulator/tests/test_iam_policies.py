"""IAM policies in the emulated account, and how they are evaluated.

Expected decisions follow the IAM user guide: "Policy evaluation logic", "Condition operators", "Set operators".
"""

from typing import Any

import pytest
from emulated_accounts import ACCOUNT
from iam_documents import READER, WRITER, B, policy, statement

from aws_emulator.iam.policies import ServiceAction, judge, read


def decision(document: Any, action: str, resource: str = "arn:aws:s3:::b/k", **context: Any) -> str:
    """A policy's decision. Context keys have ``__`` for their colon and ``_`` for a hyphen."""
    known = {
        name.replace("__", ":").replace("_", "-"): tuple([value] if isinstance(value, str) else value)
        for name, value in context.items()
    }
    return judge([read(document)], ServiceAction(action, resource), known).decision


def under(condition: dict[str, Any], **context: Any) -> str:
    return decision(policy(statement("Allow", "s3:GetObject", Condition=condition)), "s3:GetObject", **context)


def test_denial_outweighs_permission_in_any_order() -> None:
    allow, deny = statement("Allow", "s3:*"), statement("Deny", "s3:DeleteObject")
    for document in (policy(allow, deny), policy(deny, allow)):
        assert decision(document, "s3:DeleteObject") == "deny"
        assert decision(document, "s3:GetObject") == "allow"
        assert decision(document, "sqs:SendMessage") == "nothing"


@pytest.mark.parametrize(
    ("text", "action", "expected"),
    [
        ("s3:GetObject", "s3:GetObject", "allow"),
        ("S3:getobject", "s3:GetObject", "allow"),
        ("s3:Get*", "s3:GetObjectVersion", "allow"),
        ("s3:Get?bject", "s3:GetObject", "allow"),
        ("s3:GetObject", "s3:GetObjectVersion", "nothing"),
        ("s3:Get.bject", "s3:GetObject", "nothing"),
        ("*", "sqs:SendMessage", "allow"),
    ],
)
def test_actions_are_compared_without_case_and_with_wildcards(text: str, action: str, expected: str) -> None:
    assert decision(policy(statement("Allow", text)), action) == expected


@pytest.mark.parametrize(
    ("text", "resource", "expected"),
    [
        ("arn:aws:s3:::b/*", "arn:aws:s3:::b/a/c", "allow"),
        ("arn:aws:s3:::b/*", "arn:aws:s3:::b", "nothing"),
        ("arn:aws:s3:::b/K", "arn:aws:s3:::b/k", "nothing"),
        ("arn:aws:s3:::*", "arn:aws:s3:::b/k", "allow"),
        ("arn:aws:s3*", "arn:aws:s3:::b/k", "nothing"),
        ("arn:aws:lambda:*:1:function:f", "arn:aws:lambda:us-east-1:1:function:f", "allow"),
        ("arn:aws:lambda:*:function:f", "arn:aws:lambda:us-east-1:1:function:f", "nothing"),
        ("arn:aws:lambda:us-east-1:1:function:f:*", "arn:aws:lambda:us-east-1:1:function:f:7", "allow"),
        ("arn:aws:lambda:us-east-1:1:function:f:*", "arn:aws:lambda:us-east-1:1:function:f", "nothing"),
        ("*", "arn:aws:s3:::b/k", "allow"),
    ],
)
def test_resources_are_compared_part_by_part(text: str, resource: str, expected: str) -> None:
    assert decision(policy(statement("Allow", "*", text)), "s3:GetObject", resource) == expected


def test_all_but_the_named_actions_and_resources() -> None:
    others = policy({"Effect": "Allow", "NotAction": "iam:*", "NotResource": "arn:aws:s3:::b/secret/*"})
    assert decision(others, "s3:GetObject", "arn:aws:s3:::b/k") == "allow"
    assert decision(others, "s3:GetObject", "arn:aws:s3:::b/secret/k") == "nothing"
    assert decision(others, "iam:CreateRole", "arn:aws:s3:::b/k") == "nothing"


def leading(*keys: str) -> dict[str, Any]:
    return {"dynamodb__leadingkeys": keys}


def by(name: str) -> dict[str, Any]:
    return {"aws__principalarn": f"arn:aws:iam::1:{name}"}


@pytest.mark.parametrize(
    ("condition", "context", "expected"),
    [
        ({"StringEquals": {"s3:prefix": ["a", "b"]}}, {"s3__prefix": "b"}, "allow"),
        ({"StringEquals": {"s3:prefix": "a*"}}, {"s3__prefix": "ab"}, "nothing"),
        ({"StringLike": {"s3:prefix": "a*"}}, {"s3__prefix": "ab"}, "allow"),
        ({"StringLike": {"s3:prefix": "a*"}}, {}, "nothing"),
        ({"StringLikeIfExists": {"s3:prefix": "a*"}}, {}, "allow"),
        ({"StringNotEquals": {"s3:prefix": ["a", "b"]}}, {"s3__prefix": "b"}, "nothing"),
        ({"StringNotEquals": {"s3:prefix": ["a", "b"]}}, {"s3__prefix": "c"}, "allow"),
        ({"StringNotEquals": {"s3:prefix": "a"}}, {}, "allow"),
        ({"StringEqualsIgnoreCase": {"s3:prefix": "AB"}}, {"s3__prefix": "ab"}, "allow"),
        ({"Bool": {"aws:SecureTransport": "true"}}, {"aws__securetransport": "true"}, "allow"),
        ({"Bool": {"aws:SecureTransport": True}}, {"aws__securetransport": "true"}, "allow"),
        ({"Bool": {"aws:SecureTransport": "true"}}, {}, "nothing"),
        ({"Null": {"s3:prefix": "true"}}, {}, "allow"),
        ({"Null": {"s3:prefix": "true"}}, {"s3__prefix": "a"}, "nothing"),
        ({"Null": {"s3:prefix": "false"}}, {"s3__prefix": "a"}, "allow"),
        ({"NumericLessThanEquals": {"s3:max-keys": "10"}}, {"s3__max_keys": "10"}, "allow"),
        ({"NumericLessThan": {"s3:max-keys": "10"}}, {"s3__max_keys": "10"}, "nothing"),
        ({"NumericGreaterThan": {"s3:max-keys": 9}}, {"s3__max_keys": "10"}, "allow"),
        ({"NumericNotEquals": {"s3:max-keys": "10"}}, {"s3__max_keys": "10"}, "nothing"),
        ({"NumericEquals": {"s3:max-keys": "10"}}, {"s3__max_keys": "ten"}, "nothing"),
        ({"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/a-*"}}, by("role/a-b"), "allow"),
        ({"ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::1:role/*"}}, by("role/a"), "nothing"),
        ({"ForAllValues:StringLike": {"dynamodb:LeadingKeys": "a/*"}}, leading("a/1", "a/2"), "allow"),
        ({"ForAllValues:StringLike": {"dynamodb:LeadingKeys": "a/*"}}, leading("a/1", "b/2"), "nothing"),
        ({"ForAllValues:StringLike": {"dynamodb:LeadingKeys": "a/*"}}, {}, "allow"),
        ({"ForAnyValue:StringLike": {"dynamodb:LeadingKeys": "a/*"}}, leading("a/1", "b/2"), "allow"),
        ({"ForAnyValue:StringLike": {"dynamodb:LeadingKeys": "a/*"}}, {}, "nothing"),
        ({"ForAnyValue:StringNotEquals": {"dynamodb:LeadingKeys": "a"}}, leading("a", "b"), "allow"),
        ({"ForAllValues:StringNotEquals": {"dynamodb:LeadingKeys": "a"}}, leading("a", "b"), "nothing"),
        ({"StringEquals": {"s3:prefix": "a"}, "Null": {"s3:delimiter": "true"}}, {"s3__prefix": "a"}, "allow"),
        ({"StringEquals": {"s3:prefix": "a", "s3:delimiter": "/"}}, {"s3__prefix": "a"}, "nothing"),
    ],
)  # fmt: skip
def test_conditions(condition: dict[str, Any], context: dict[str, Any], expected: str) -> None:
    assert under(condition, **context) == expected


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ({"IpAddress": {"aws:SecureTransport": "true"}}, "the condition operator IpAddress is not emulated"),
        ({"StringEquals": {"aws:SourceVpc": "vpc-1"}}, "the condition key aws:sourcevpc is not emulated"),
        ({"StringEquals": {"s3:prefix": "a"}}, "s3:prefix has several values"),
        ({"StringNotEquals": {"s3:prefix": "${aws:PrincipalTag/team}"}}, "a variable in the condition on s3:prefix"),
    ],
)
def test_unsupported_policies_deny_with_a_reason(condition: dict[str, Any], why: str) -> None:
    document = policy(statement("Allow", "s3:*"), statement("Deny", "s3:Get*", Sid="Odd", Condition=condition))
    context = {"s3:prefix": ("a", "b") if "several" in why else ("a",)}
    verdict = judge([read(document)], ServiceAction("s3:GetObject", B), context)
    assert verdict.decision == "deny"
    assert "Odd: " in verdict.why and why in verdict.why
    assert judge([read(document)], ServiceAction("s3:PutObject", B), context).decision == "allow"


@pytest.mark.parametrize(
    "document",
    [
        "not json",
        {"Version": "2012-10-17"},
        policy({"Effect": "Allow", "Action": "*"}),
        policy({"Effect": "allow", "Action": "*", "Resource": "*"}),
        policy({"Effect": "Allow", "Action": "*", "Resource": "*", "Principal": "*"}),
        policy({"Effect": "Allow", "Action": 3, "Resource": "*"}),
    ],
)
def test_a_policy_that_cannot_be_read_denies(document: Any) -> None:
    assert decision(document, "s3:GetObject") == "deny"


def test_policy_variables_hold_exact_values_of_the_caller() -> None:
    document = policy(statement("Allow", "s3:GetObject", "arn:aws:s3:::b/${aws:PrincipalTag/team}/*"))

    def verdict(tag: tuple[str, ...], key: str) -> str:
        return judge(
            [read(document)], ServiceAction("s3:GetObject", f"arn:aws:s3:::b/{key}"), {"aws:principaltag/team": tag}
        ).decision

    assert verdict(("red",), "red/1") == "allow"
    assert verdict(("red",), "blue/1") == "nothing"
    assert verdict(("*",), "blue/1") == "nothing"
    assert verdict(("*",), "*/1") == "allow"
    assert verdict((), "/1") == "nothing"
    literal = policy(statement("Allow", "s3:GetObject", "arn:aws:s3:::b/${*}"))
    assert decision(literal, "s3:GetObject", "arn:aws:s3:::b/*") == "allow"
    assert decision(literal, "s3:GetObject", "arn:aws:s3:::b/k") == "nothing"
    default = policy(statement("Allow", "s3:GetObject", "arn:aws:s3:::b/${aws:PrincipalTag/team, 'all'}/*"))
    assert decision(default, "s3:GetObject", "arn:aws:s3:::b/all/k") == "allow"


def test_a_resource_policy_is_about_whom_it_names() -> None:
    document = policy(statement("Deny", "s3:*", Principal={"AWS": [READER]}), statement("Allow", "s3:*", Principal="*"))

    def verdict(*callers: str) -> str:
        return judge([read(document, of_resource=True)], ServiceAction("s3:GetObject", B), {}, callers).decision

    assert verdict(READER, "session") == "deny"
    assert verdict(WRITER) == "allow"
    services = policy(statement("Deny", "s3:*", Principal={"Service": "lambda.amazonaws.com"}))
    assert (
        judge([read(services, of_resource=True)], ServiceAction("s3:GetObject", B), {}, (READER,)).decision == "nothing"
    )


@pytest.mark.parametrize("everybody", [f"arn:aws:iam::{ACCOUNT}:root", ACCOUNT])
def test_resource_policy_denial_of_account_covers_all_principals(everybody: str) -> None:
    for effect, decision in (("Deny", "deny"), ("Allow", "nothing")):
        document = read(policy(statement(effect, "s3:*", Principal={"AWS": everybody})), of_resource=True)
        account = (f"arn:aws:iam::{ACCOUNT}:root", ACCOUNT)
        assert judge([document], ServiceAction("s3:GetObject", B), {}, (READER,), account).decision == decision


@pytest.mark.parametrize("version", [{"Version": "2008-10-17"}, {}])
def test_policies_of_the_first_version_have_no_variables(version: dict[str, str]) -> None:
    allowing = {**version, "Statement": statement("Allow", "s3:GetObject", "arn:aws:s3:::b/${aws:userid}")}

    def verdict(key: str) -> str:
        action = ServiceAction("s3:GetObject", f"arn:aws:s3:::b/{key}")
        return judge([read(allowing)], action, {"aws:userid": ("me",)}).decision

    assert (verdict("me"), verdict("${aws:userid}")) == ("nothing", "allow")
