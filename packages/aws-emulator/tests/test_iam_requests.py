"""IAM authorization of requests to the emulated account: services agree with it about each of them.

Expected decisions follow the IAM user guide: "Policy evaluation logic", "Condition operators", "Set operators".
"""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from emulated_accounts import ACCOUNT, OPERATOR, REGION, Place, account_of_rules
from iam_documents import READER, WRITER, B, policy, statement

from aws_emulator.iam.authorization import UnknownRole
from aws_emulator.iam.policies import ServiceAction
from aws_emulator.iam.requests import Account, service_actions, signer
from aws_emulator.iam.role_policies import Rules

SOMEONE = f"arn:aws:sts::{ACCOUNT}:assumed-role/reader/someone"
TENANT = f"arn:aws:iam::{ACCOUNT}:role/tenant"
TABLE = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/ledger"


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


def test_session_policy_limits_role_and_grants_nothing(place: Place) -> None:
    bounded = client(place, WRITER, "s3", policy(statement("Allow", "s3:GetObject", f"{B}/*")))
    assert bounded.get_object(Bucket="shelf", Key="own/1")["Body"].read() == b"first"
    put = refusal(bounded.put_object, Bucket="shelf", Key="own/3", Body=b"x")
    assert put["Error"]["Message"].endswith("because no session policy allows the s3:PutObject action")
    get = refusal(bounded.get_object, Bucket="shelf", Key="other/1")
    assert get["Error"]["Message"].endswith("because no identity-based policy allows the s3:GetObject action")


def test_session_policy_does_not_limit_bucket_policy_grants(place: Place) -> None:
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


def test_bucket_policy_denies_everyone_and_allows_named_callers(place: Place) -> None:
    assert client(place, WRITER, "s3").get_object(Bucket="shelf", Key="open/1")["Body"].read() == b"first"
    sealed = refusal(place.operator("s3").put_object, Bucket="shelf", Key="sealed/1", Body=b"x")
    assert sealed["Error"]["Message"].endswith("with an explicit deny (Sealed) in a resource-based policy")


def test_trusted_caller_assumes_role_with_limited_session(place: Place) -> None:
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


def test_untrusted_caller_cannot_assume_role(place: Place) -> None:
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
def test_role_admits_only_principals_of_its_trust_policy(principal: dict[str, str], effect: str, expected: str) -> None:
    rules = Rules()
    rules.put_trust(READER, policy({"Effect": effect, "Action": "sts:AssumeRole", "Principal": principal}))
    with account_of_rules(rules) as place:
        assume = place.operator("sts").assume_role
        if expected == "assumed":
            assume(RoleArn=READER, RoleSessionName="x1")
        else:
            assert refusal(assume, RoleArn=READER, RoleSessionName="x1")["Error"]["Code"] == "AccessDenied"


def test_missing_role_cannot_be_assumed(place: Place) -> None:
    nobody = f"arn:aws:iam::{ACCOUNT}:role/nobody"
    assumed = refusal(place.operator("sts").assume_role, RoleArn=nobody, RoleSessionName="x1")
    assert assumed["Error"]["Code"] == "AccessDenied"
    with pytest.raises(UnknownRole):
        place.authorization.issue(nobody, "x1")


def test_credentials_expire_and_follow_role_changes() -> None:
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


def test_only_callers_that_may_list_see_missing_objects(place: Place) -> None:
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


def send(place: Place, service: str, method: str, path: str, body: bytes = b"", **headers: str) -> int:
    """Sends the writer's request verbatim. Returns the status. ``_`` in names of headers is a hyphen."""
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
        # actions that no role has permissions for
        ("s3", "PUT", "/shelf/own/6", b"x", {"X_Amz_Grant_Read": "uri=everybody"}),
        ("s3", "PUT", "/shelf/own/6", b"x", {"X_Amz_Copy_Source": "/shelf/own/1?versionId=1;/other/1"}),
        ("s3", "PUT", "/shelf/own/6", b"x", {"X_Amz_Copy_Source": "http://x/shelf/other/1"}),
        ("s3", "PUT", "/shelf/own/6", b"x", {"X_Amz_Tagging": "a=1&a=2"}),
        # one address of Lambda within another, and a second qualifier
        ("s3", "POST", "/2015-03-31/functions/f/invocations", b"{}", {}),
        ("lambda", "POST", "/2015-03-31/functions/f:1/invocations?Qualifier=2", b"{}", {}),
    ],
)  # fmt: skip
def test_ambiguous_request_is_refused(
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
def test_request_with_unknown_signature_kind_is_refused(place: Place, header: str) -> None:
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
