"""IAM authorization in the emulated account: policy evaluation, and services that agree with it about each request.

Expected decisions follow the IAM user guide: "Policy evaluation logic", "Condition operators", "Set operators".
"""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from emulated_accounts import ACCOUNT, OPERATOR, REGION, Place, account_of_rules

from aws_emulator.iam.authorization import UnknownRole
from aws_emulator.iam.policies import ServiceAction, judge, read
from aws_emulator.iam.requests import Account, service_actions, signer
from aws_emulator.iam.role_policies import Rules

READER = f"arn:aws:iam::{ACCOUNT}:role/reader"
WRITER = f"arn:aws:iam::{ACCOUNT}:role/writer"
SOMEONE = f"arn:aws:sts::{ACCOUNT}:assumed-role/reader/someone"
TENANT = f"arn:aws:iam::{ACCOUNT}:role/tenant"
B = "arn:aws:s3:::shelf"
TABLE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/ledger"


def statement(effect: str, action: Any, resource: Any = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": action, "Resource": resource, **more}


def policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def decision(document: Any, action: str, resource: str = "arn:aws:s3:::b/k", **context: Any) -> str:
    """A policy's decision; context keys have ``__`` for their colon and ``_`` for a hyphen."""
    known = {
        name.replace("__", ":").replace("_", "-"): tuple([value] if isinstance(value, str) else value)
        for name, value in context.items()
    }
    return judge([read(document)], ServiceAction(action, resource), known).decision


def under(condition: dict[str, Any], **context: Any) -> str:
    return decision(policy(statement("Allow", "s3:GetObject", Condition=condition)), "s3:GetObject", **context)


# ---- Policies ----


def test_a_denial_counts_more_than_a_permission_wherever_it_stands() -> None:
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
def test_what_is_not_emulated_goes_against_the_caller_and_says_why(condition: dict[str, Any], why: str) -> None:
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


def test_variables_stand_for_what_is_known_of_the_caller_letter_by_letter() -> None:
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
def test_a_resource_policys_deny_of_the_account_is_about_all_its_principals(everybody: str) -> None:
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


# ---- Requests ----


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    rules = Rules()
    rules.put_policy(READER, "read", policy(statement("Allow", "s3:GetObject", f"{B}/*")))
    own = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": "own/*"}, "Null": {"dynamodb:LeadingKeys": "false"}}
    rules.put_policy(
        WRITER,
        "write",
        policy(
            statement("Allow", "s3:*", f"{B}/own/*"),
            statement("Allow", "s3:List*", B, Condition={"StringLike": {"s3:prefix": "own/*"}}),
            statement("Allow", "lambda:InvokeFunction", f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:f:*"),
            statement("Allow", "dynamodb:*", TABLE, Condition=own),
            statement("Allow", "sts:AssumeRole", READER),
        ),
    )
    rules.put_trust(READER, policy({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": WRITER}}))
    rules.put_policy(TENANT, "own", policy(statement("Allow", "s3:*", f"{B}/${{aws:PrincipalTag/tenant}}/*")))
    rules.put_bucket_policy(
        "shelf",
        policy(
            statement("Deny", "s3:PutObject", f"{B}/sealed/*", Principal="*", Sid="Sealed"),
            statement("Allow", "s3:GetObject", f"{B}/open/*", Principal={"AWS": WRITER}),
            statement("Allow", "s3:GetObject", f"{B}/open/*", Principal={"AWS": SOMEONE}),
        ),
    )
    rules.put_table("ledger", "scope")
    with account_of_rules(rules) as place:
        place.operator("s3").create_bucket(Bucket="shelf")
        for key in ("own/1", "other/1", "open/1"):
            place.operator("s3").put_object(Bucket="shelf", Key=key, Body=b"first")
        place.operator("dynamodb").create_table(
            TableName="ledger",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "scope", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "scope", "KeyType": "HASH"}],
        )
        place.operator("dynamodb").put_item(TableName="ledger", Item={"scope": {"S": "other/1"}})
        yield place


def client(place: Place, role: str, service: str, policy: Any = None, **tags: str) -> Any:
    made = place.authorization.issue(role, "someone", policy, tags)
    return place.client_of(made, service)


def refusal(call: Any, *arguments: Any, **fields: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as refused:
        call(*arguments, **fields)
    return refused.value.response


def test_a_body_can_still_be_read_after_authorization(place: Place) -> None:
    writer = client(place, WRITER, "s3")
    writer.put_object(Bucket="shelf", Key="own/large", Body=b"x" * 3_000_000)
    assert len(writer.get_object(Bucket="shelf", Key="own/large")["Body"].read()) == 3_000_000
    table = client(place, WRITER, "dynamodb")
    table.put_item(TableName="ledger", Item={"scope": {"S": "own/2"}, "body": {"B": b"y" * 100_000}})
    assert len(table.get_item(TableName="ledger", Key={"scope": {"S": "own/2"}})["Item"]["body"]["B"]) == 100_000


def test_a_session_policy_bounds_a_role_and_gives_it_nothing(place: Place) -> None:
    bounded = client(place, WRITER, "s3", policy(statement("Allow", "s3:GetObject", f"{B}/*")))
    assert bounded.get_object(Bucket="shelf", Key="own/1")["Body"].read() == b"first"
    put = refusal(bounded.put_object, Bucket="shelf", Key="own/3", Body=b"x")
    assert put["Error"]["Message"].endswith("because no session policy allows the s3:PutObject action")
    get = refusal(bounded.get_object, Bucket="shelf", Key="other/1")
    assert get["Error"]["Message"].endswith("because no identity-based policy allows the s3:GetObject action")


def test_a_session_policy_does_not_bound_what_a_bucket_policy_allows_to_the_session_itself(place: Place) -> None:
    """IAM user guide, "Policy evaluation for requests within a single account", role sessions."""
    nothing = policy(statement("Allow", "sqs:*", "*"))
    reader, writer = (client(place, role, "s3", nothing) for role in (READER, WRITER))
    assert reader.get_object(Bucket="shelf", Key="open/1")["Body"].read() == b"first"
    by_role = refusal(writer.get_object, Bucket="shelf", Key="open/1")
    assert by_role["Error"]["Message"].endswith("because no session policy allows the s3:GetObject action")
    denied = client(place, READER, "s3", policy(statement("Deny", "s3:GetObject", f"{B}/open/*")))
    assert refusal(denied.get_object, Bucket="shelf", Key="open/1")["Error"]["Message"].endswith(
        "with an explicit deny"
    )


def test_session_tags_fill_the_variables_of_policies(place: Place) -> None:
    own = client(place, TENANT, "s3", tenant="own")
    own.put_object(Bucket="shelf", Key="own/4", Body=b"x")
    assert refusal(own.get_object, Bucket="shelf", Key="other/1")["Error"]["Code"] == "AccessDenied"
    untagged = client(place, TENANT, "s3")
    assert refusal(untagged.get_object, Bucket="shelf", Key="own/1")["Error"]["Code"] == "AccessDenied"


@pytest.mark.parametrize("duration", ["soon", "899", "43201", "-1", "1e3"])
def test_a_session_lasts_as_long_as_sts_allows(place: Place, duration: str) -> None:
    sts = client(place, WRITER, "sts")
    sts.meta.events.register(
        "before-sign.sts.AssumeRole", lambda request, **_: request.data.update(DurationSeconds=duration)
    )
    with pytest.raises(ClientError) as refused:
        sts.assume_role(RoleArn=READER, RoleSessionName="reading")
    assert refused.value.response["Error"]["Code"] == "ValidationError"


def test_a_bucket_may_refuse_its_whole_account(place: Place) -> None:
    whole = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    place.operator("s3").create_bucket(Bucket="closed")
    place.authorization._rules.put_bucket_policy("closed", policy(statement("Deny", "s3:PutObject", Principal=whole)))
    with pytest.raises(ClientError, match="explicit deny in a resource-based policy"):
        place.operator("s3").put_object(Bucket="closed", Key="k", Body=b"")


def test_a_bucket_policy_denies_everybody_and_allows_whom_it_names(place: Place) -> None:
    assert client(place, WRITER, "s3").get_object(Bucket="shelf", Key="open/1")["Body"].read() == b"first"
    sealed = refusal(place.operator("s3").put_object, Bucket="shelf", Key="sealed/1", Body=b"x")
    assert sealed["Error"]["Message"].endswith("with an explicit deny (Sealed) in a resource-based policy")


def test_a_role_is_assumed_by_who_may_and_its_session_is_held_to_it(place: Place) -> None:
    sts = client(place, WRITER, "sts")
    narrow = json.dumps(policy(statement("Allow", "s3:*", f"{B}/other/*")))
    answer = sts.assume_role(RoleArn=READER, RoleSessionName="reading", Policy=narrow, DurationSeconds=900)[
        "Credentials"
    ]
    made = (answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"])
    reader = place.client_of(made, "s3")
    assert reader.get_object(Bucket="shelf", Key="other/1")["Body"].read() == b"first"
    assert refusal(reader.get_object, Bucket="shelf", Key="own/1")["Error"]["Code"] == "AccessDenied"
    who = place.client_of(made, "sts").get_caller_identity()
    assert who["Arn"] == f"arn:aws:sts::{ACCOUNT}:assumed-role/reader/reading"
    assert refusal(sts.assume_role, RoleArn=TENANT, RoleSessionName="x1")["Error"]["Code"] == "AccessDenied"


def test_nobody_assumes_a_role_that_does_not_trust_them(place: Place) -> None:
    sts = place.operator("sts")
    for role in (READER, WRITER):
        refused = refusal(sts.assume_role, RoleArn=role, RoleSessionName="x1")
        assert refused["Error"]["Message"].endswith("because no resource-based policy allows the sts:AssumeRole action")


@pytest.mark.parametrize(
    ("principal", "effect", "expected"),
    [
        ({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Allow", "assumed"),
        ({"AWS": ACCOUNT}, "Allow", "assumed"),
        ({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Deny", "refused"),
        ({"AWS": "arn:aws:iam::210987654321:root"}, "Allow", "refused"),
        ({"Service": "lambda.amazonaws.com"}, "Allow", "refused"),
    ],
)
def test_a_role_is_for_whom_its_trust_policy_names(principal: dict[str, str], effect: str, expected: str) -> None:
    rules = Rules()
    rules.put_trust(READER, policy({"Effect": effect, "Action": "sts:AssumeRole", "Principal": principal}))
    with account_of_rules(rules) as place:
        assume = place.operator("sts").assume_role
        if expected == "assumed":
            assume(RoleArn=READER, RoleSessionName="x1")
        else:
            assert refusal(assume, RoleArn=READER, RoleSessionName="x1")["Error"]["Code"] == "AccessDenied"


def test_a_role_that_does_not_exist_cannot_be_assumed(place: Place) -> None:
    nobody = f"arn:aws:iam::{ACCOUNT}:role/nobody"
    assumed = refusal(place.operator("sts").assume_role, RoleArn=nobody, RoleSessionName="x1")
    assert assumed["Error"]["Code"] == "AccessDenied"
    with pytest.raises(UnknownRole):
        place.authorization.issue(nobody, "x1")


def test_credentials_end_with_their_time_and_are_worth_what_the_role_is_just_now() -> None:
    rules = Rules()
    rules.put_policy(READER, "read", policy(statement("Allow", "s3:ListAllMyBuckets")))
    with account_of_rules(rules) as place:
        late = place.client_of(place.authorization.issue(READER, "late", duration_s=0.0), "s3")
        assert refusal(late.list_buckets)["Error"]["Code"] == "ExpiredToken"
        reader = place.client_of(place.authorization.issue(READER, "someone"), "s3")
        reader.list_buckets()
        rules.drop_policy(READER, "read")
        assert refusal(reader.list_buckets)["Error"]["Code"] == "AccessDenied"
        rules.put_policy(READER, "again", policy(statement("Allow", "s3:*")))
        reader.list_buckets()
        rules.drop_role(READER)
        assert refusal(reader.list_buckets)["Error"]["Code"] == "AccessDenied"


def test_a_key_without_its_token_is_unknown(place: Place) -> None:
    made = place.authorization.issue(READER, "someone")
    for token in (None, "guessed", made.token[:-1]):
        thief = place.client_of((made.key, made.secret, token), "s3")
        assert refusal(thief.get_object, Bucket="shelf", Key="own/1")["Error"]["Code"] == "InvalidAccessKeyId"


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "s3": ("list_buckets", {}),
    "dynamodb": ("list_tables", {}),
    "lambda": ("list_functions", {}),
    "logs": ("describe_log_groups", {}),
    "sqs": ("list_queues", {}),
    "iam": ("list_roles", {}),
    "cloudformation": ("list_stacks", {}),
    "cloudwatch": ("list_dashboards", {}),
    "events": ("list_rules", {}),
    "sns": ("list_topics", {}),
}


@pytest.mark.parametrize("service", CALLS)
def test_every_service_refuses_in_its_own_words(place: Place, service: str) -> None:
    call, fields = CALLS[service]
    denied = refusal(getattr(client(place, READER, service), call), **fields)
    assert denied["Error"]["Code"] in ("AccessDenied", "AccessDeniedException")
    assert f"assumed-role/reader/someone is not authorized to perform: {service}:" in denied["Error"]["Message"]
    stranger = place.client_of(("AKIASTRANGER", "secret", None), service)
    unknown = refusal(getattr(stranger, call), **fields)
    assert unknown["Error"]["Code"] in ("InvalidAccessKeyId", "InvalidClientTokenId", "UnrecognizedClientException")


def test_only_a_caller_that_may_list_learns_that_an_object_is_missing(place: Place) -> None:
    reader, writer = client(place, READER, "s3"), client(place, WRITER, "s3")
    hidden = refusal(reader.get_object, Bucket="shelf", Key="own/none")
    assert hidden["Error"]["Code"] == "AccessDenied"
    assert f's3:ListBucket on resource: "{B}"' in hidden["Error"]["Message"]
    assert refusal(reader.head_object, Bucket="shelf", Key="own/none")["Error"]["Code"] == "403"
    assert refusal(writer.get_object, Bucket="shelf", Key="own/none")["Error"]["Code"] == "NoSuchKey"
    assert refusal(writer.head_object, Bucket="shelf", Key="own/none")["Error"]["Code"] == "404"


KEYS = {
    *("a b", "a+b", "ü/é", "日本", "a%2Fb", "a%252Fb", "a//b", "a/../b", "a/./b"),
    *("a;b", "a?b", "a#b", "a&b=c", "~'()", "a:b", "*", "$", "own/"),
}


def test_the_authorization_sees_the_keys_that_are_stored(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def noting(environ: dict[str, Any], by: Any, of: Any) -> list[ServiceAction] | None:
        found = service_actions(environ, by, of)
        seen.extend(one.resource for one in found or [])
        return found

    place.operator("s3").create_bucket(Bucket="odd-keys")
    monkeypatch.setattr("aws_emulator.iam.authorization.service_actions", noting)
    for key in KEYS:
        place.operator("s3").put_object(Bucket="odd-keys", Key=key, Body=b"x")
    monkeypatch.undo()
    stored = place.operator("s3").list_objects_v2(Bucket="odd-keys")["Contents"]
    assert {f"arn:aws:s3:::odd-keys/{entry['Key']}" for entry in stored} == set(seen)
    assert len(stored) == len(KEYS)


# ---- Ambiguous requests ----


def send(place: Place, service: str, method: str, path: str, body: bytes = b"", **headers: str) -> int:
    """Sends the writer's request verbatim; returns the status. ``_`` in names of headers is a hyphen."""
    made = place.authorization.issue(WRITER, "sly")
    scope = f"{made.key}/20260101/{REGION}/{service}/aws4_request"
    signed = {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, Signature=0",
        "X-Amz-Security-Token": made.token,
        "Content-Length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    connection = http.client.HTTPConnection(place.endpoint.removeprefix("http://"), timeout=10)
    # The path is sent verbatim, including '#'.
    connection.putrequest(method, path, skip_host="Host" in signed)
    for name, value in signed.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    status = connection.getresponse().status
    connection.close()
    return status


JSON = {"Content_Type": "application/x-amz-json-1.0", "X_Amz_Target": "DynamoDB_20120810.GetItem"}
OWN = b'{"TableName":"ledger","Key":{"scope":{"S":"own/1"}}}'


def test_an_honest_request_passes(place: Place) -> None:
    assert send(place, "dynamodb", "POST", "/", OWN, **JSON) == 200
    assert send(place, "s3", "PUT", "/shelf/own/5", b"x") == 200
    assert send(place, "s3", "GET", "/shelf/own/1?x-id=GetObject") == 200
    assert send(place, "s3", "GET", "/shelf?prefix=own/") == 200
    assert send(place, "lambda", "POST", "/2015-03-31/functions/f:1/invocations", b"{}") == 200


@pytest.mark.parametrize(
    ("service", "method", "path", "body", "headers"),
    [
        # moto's own management, under the signature of another service
        ("dynamodb", "POST", "/moto-api/reset", OWN, JSON),
        ("s3", "POST", "/moto-api/reset", b"", {}),
        ("s3", "GET", "/latest/meta-data/iam/security-credentials/", b"", {}),
        # an action in the query, or in a body that is also JSON
        ("dynamodb", "POST", "/?Action=Scan", OWN, JSON),
        ("dynamodb", "POST", "/", b'{"TableName":"ledger","Key":{"scope":{"S":"own/&Action=Scan&"}}}', JSON),
        ("dynamodb", "POST", "/", b'{"TableName":"ledger","Key":{"scope":{"S":"own/&%41ction=Scan&"}}}', JSON),
        # a body of another kind, another target, another key than the effective one
        ("dynamodb", "POST", "/", OWN, {**JSON, "Content_Type": "application/x-www-form-urlencoded"}),
        ("dynamodb", "POST", "/", OWN, {**JSON, "X_Amz_Target": "Logs_20140328.GetItem"}),
        (
            "dynamodb",
            "POST",
            "/",
            b'{"TableName":"ledger","Key":{"scope":{"S":"own/1"}},"Item":{"scope":{"S":"other/1"}}}',
            {**JSON, "X_Amz_Target": "DynamoDB_20120810.PutItem"},
        ),
        ("dynamodb", "POST", "/", OWN.replace(b'"}}}', b'"},"scope":{"S":"other/1"}}}'), JSON),
        ("dynamodb", "POST", "/", b'{"TableName":"ledger","Key":{"Scope":{"S":"own/1"}}}', JSON),
        # a query that ends early after authorization, or starts elsewhere
        ("s3", "PUT", "/shelf/own/1?x-id=#&partNumber=1&uploadId=1", b"x", {}),
        ("s3", "GET", "/shelf/own/1#/../../other/1", b"", {}),
        ("s3", "PUT", "/shelf/own/1?partNumber=1", b"x", {}),
        ("s3", "GET", "/shelf/own/1?tagging&uploadId=1", b"", {}),
        ("s3", "GET", "/shelf?prefix=own/&prefix=other/", b"", {}),
        ("s3", "GET", "/shelf?prefix=own/&policy", b"", {}),
        # other ways to name a bucket
        ("s3", "GET", "//shelf/other/1", b"", {}),
        ("s3", "GET", "/own/1", b"", {"Host": "shelf.s3.amazonaws.com"}),
        ("s3", "GET", "/shelf/own/1", b"", {"Host": "other.localhost.example"}),
        ("s3", "GET", "/shelf%2Fown/1", b"", {}),
        # forms, which moto treats as uploads
        ("s3", "POST", "/shelf", b"key=other/9&file=x", {"Content_Type": "application/x-www-form-urlencoded"}),
        ("s3", "PUT", "/shelf/own/6", b"--b--", {"Content_Type": "multipart/form-data; boundary=b"}),
        # actions for which no role has permissions
        ("s3", "PUT", "/shelf/own/6", b"x", {"X_Amz_Grant_Read": "uri=everybody"}),
        ("s3", "PUT", "/shelf/own/6", b"x", {"X_Amz_Copy_Source": "/shelf/own/1?versionId=1;/other/1"}),
        ("s3", "PUT", "/shelf/own/6", b"x", {"X_Amz_Copy_Source": "http://x/shelf/other/1"}),
        ("s3", "PUT", "/shelf/own/6", b"x", {"X_Amz_Tagging": "a=1&a=2"}),
        # one address of Lambda within another, and a second qualifier
        ("s3", "POST", "/2015-03-31/functions/f/invocations", b"{}", {}),
        ("lambda", "POST", "/2015-03-31/functions/f:1/invocations?Qualifier=2", b"{}", {}),
    ],
)  # fmt: skip
def test_a_request_that_can_be_read_in_two_ways_is_refused(
    place: Place, service: str, method: str, path: str, body: bytes, headers: dict[str, str]
) -> None:
    assert send(place, service, method, path, body, **headers) in (400, 403)
    operator = place.operator("dynamodb")
    assert operator.get_item(TableName="ledger", Key={"scope": {"S": "other/1"}})["Item"] == {"scope": {"S": "other/1"}}
    assert place.operator("s3").get_object(Bucket="shelf", Key="other/1")["Body"].read() == b"first"


@pytest.mark.parametrize(
    "header",
    [
        "",
        "AWS AKIAOPERATOR:c2lnbmF0dXJl",
        f"AWS4-HMAC-SHA256 Credential={OPERATOR}/20260101/us-east-1/s3/extra/aws4_request, Signature=0",
        f"Bearer Credential={OPERATOR}/20260101/us-east-1/s3/aws4_request, Signature=0",
    ],
)
def test_a_request_without_a_signature_of_our_kind_is_refused(place: Place, header: str) -> None:
    connection = http.client.HTTPConnection(place.endpoint.removeprefix("http://"), timeout=10)
    for path in (
        "/shelf/own/1",
        "/moto-api/data.json",
        f"/shelf/own/1?X-Amz-Credential={OPERATOR}%2F20260101%2Fus-east-1",
    ):
        connection.request("GET", path, headers={"Authorization": header} if header else {})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 403
    connection.close()


def test_a_request_names_whom_it_is_signed_by() -> None:
    scope = "AKIA1/20260101/eu-west-1/s3/aws4_request"
    by = signer({"HTTP_AUTHORIZATION": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"})
    assert by == ("AKIA1", "eu-west-1", "s3")
    request = {"REQUEST_METHOD": "GET", "PATH_INFO": "/2016-08-19/account-settings"}
    assert service_actions(request, by._replace(service="lambda"), Account("1")) == [
        ServiceAction("lambda:GetAccountSettings", "*")
    ]
