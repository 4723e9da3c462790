"""Who may do what: the roles of two tenants' stacks, asked over real clients, with every request behind the gate.

Everybody who asks is of tenant alpha. A place is ``<tenant of the bucket>:<tenant of the key>/<rest of the key>``.
"""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from two_tenants import Place, bucket, function, queue, role, table, two_tenants

DENIED = ("AccessDenied", "AccessDeniedException", "403")
ONCE = {"IfNoneMatch": "*"}

POLICIES = "rounds/000001/learn/all.policies.safetensors"
LEARNER = "rounds/000001/learn/all.learner.safetensors"
TENSORS = "rounds/000001/learn/advantages.tensors.safetensors"
WHOLE = "rounds/000001/sample/whole-001.learner.safetensors"
TRAJECTORY = "rounds/000001/sample/00000-00003.trajectory.safetensors"
DESCRIBED = "rounds/000000/describe.reply.safetensors"
EVALUATED = "rounds/000001/evaluate/000.reply.safetensors"
TRIED = "rounds/000001/trial/old/000/001.reply.safetensors"
SPILLED = "ledger/state/12-abc"


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    with two_tenants() as place:
        yield place


class Asking:
    """One who asks: `place`, and the role's name."""

    def __init__(self, place: Place, who: str) -> None:
        self._place, self._who = place, who
        self.operator = place.operator

    def client(self, service: str) -> Any:
        if self._who == "operator":
            return self._place.operator(service)
        return self._place.client("alpha", self._who, service)


def address(where: str) -> dict[str, str]:
    """The bucket and key of a place."""
    owner, _, path = where.partition(":")
    tenant, _, rest = path.partition("/")
    return {"Bucket": bucket(owner), "Key": f"tenants/{tenant}/runs/r/{rest}"}


def fresh(where: str) -> dict[str, str]:
    """The same place in a run of its own, where nothing is."""
    at = address(where)
    return {**at, "Key": at["Key"].replace("/runs/r/", f"/runs/{uuid.uuid4()}/")}


def held(asking: Asking, where: str) -> dict[str, str]:
    """The same, with an object there."""
    at = fresh(where)
    asking.operator("s3").put_object(**at, Body=b"first", **ONCE)
    return at


def get(asking: Asking, where: str) -> None:
    asking.client("s3").get_object(**held(asking, where))


def head(asking: Asking, where: str) -> None:
    asking.client("s3").head_object(**held(asking, where))


def put(asking: Asking, where: str) -> None:
    asking.client("s3").put_object(**fresh(where), Body=b"x", **ONCE)


def put_always(asking: Asking, where: str) -> None:
    asking.client("s3").put_object(**fresh(where), Body=b"x")


def overwrite(asking: Asking, where: str) -> None:
    asking.client("s3").put_object(**held(asking, where), Body=b"x")


def put_if_match(asking: Asking, where: str) -> None:
    at = held(asking, where)
    etag = asking.operator("s3").head_object(**at)["ETag"]
    asking.client("s3").put_object(**at, Body=b"x", IfMatch=etag)


def put_tagged(asking: Asking, where: str) -> None:
    asking.client("s3").put_object(**fresh(where), Body=b"x", Tagging="marless-kind=trajectory", **ONCE)


def put_tagged_otherwise(asking: Asking, where: str) -> None:
    asking.client("s3").put_object(**fresh(where), Body=b"x", Tagging="marless-kind=policies", **ONCE)


def put_tagged_twice(asking: Asking, where: str) -> None:
    asking.client("s3").put_object(**fresh(where), Body=b"x", Tagging="marless-kind=trajectory&public=yes", **ONCE)


def tag(asking: Asking, where: str) -> None:
    tags = {"TagSet": [{"Key": "public", "Value": "yes"}]}
    asking.client("s3").put_object_tagging(**held(asking, where), Tagging=tags)


def publish(asking: Asking, where: str) -> None:
    asking.client("s3").put_object(**fresh(where), Body=b"x", ACL="public-read", **ONCE)


def delete(asking: Asking, where: str) -> None:
    asking.client("s3").delete_object(**held(asking, where))


def delete_many(asking: Asking, where: str) -> None:
    """A deletion of several keys, the first of which is the asking tenant's own."""
    own, at = held(asking, f"{where.partition(':')[0]}:alpha/{TRAJECTORY}"), held(asking, where)
    objects = [{"Key": own["Key"]}, {"Key": at["Key"]}]
    asking.client("s3").delete_objects(Bucket=at["Bucket"], Delete={"Objects": objects})


def copy(asking: Asking, where: str) -> None:
    """A copy from there to a key that the role may write."""
    source, target = held(asking, where), fresh(f"alpha:alpha/{TRAJECTORY}")
    asking.client("s3").copy_object(**target, CopySource=source)


def upload(asking: Asking, where: str, **condition: str) -> None:
    at = fresh(where)
    id = asking.client("s3").create_multipart_upload(**at)["UploadId"]
    etag = asking.client("s3").upload_part(**at, UploadId=id, PartNumber=1, Body=b"x")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    asking.client("s3").complete_multipart_upload(**at, UploadId=id, MultipartUpload=parts, **condition)


def upload_once(asking: Asking, where: str) -> None:
    upload(asking, where, **ONCE)


def list_under(asking: Asking, where: str) -> None:
    at = address(where)
    asking.client("s3").list_objects_v2(Bucket=at["Bucket"], Prefix=at["Key"])


def list_all(asking: Asking, where: str) -> None:
    asking.client("s3").list_objects_v2(Bucket=bucket(where))


def list_versions(asking: Asking, where: str) -> None:
    asking.client("s3").list_object_versions(Bucket=bucket(where), Prefix="tenants/alpha/runs/r/rounds/")


def list_buckets(asking: Asking, where: str) -> None:
    asking.client("s3").list_buckets()


def change_bucket_policy(asking: Asking, where: str) -> None:
    asking.client("s3").delete_bucket_policy(Bucket=bucket(where))


def key_of(where: str) -> tuple[str, dict[str, Any]]:
    """``<tenant of the table>:<scope>`` as table and key."""
    owner, _, scope = where.partition(":")
    return table(owner), {"scope": {"S": scope}, "item": {"S": "state"}}


def add_member(asking: Asking, where: str) -> None:
    name, key = key_of(where)
    asking.client("dynamodb").update_item(
        TableName=name,
        Key=key,
        UpdateExpression="ADD members :m SET expires_at = :e",
        ExpressionAttributeValues={":m": {"BS": [b"1"]}, ":e": {"N": "1"}},
        ReturnValues="ALL_NEW",
    )


def get_item(asking: Asking, where: str) -> None:
    name, key = key_of(where)
    asking.client("dynamodb").get_item(TableName=name, Key=key)


def put_item(asking: Asking, where: str) -> None:
    name, key = key_of(where)
    asking.client("dynamodb").put_item(TableName=name, Item={**key, "body": {"B": b"1"}})


def delete_item(asking: Asking, where: str) -> None:
    name, key = key_of(where)
    asking.client("dynamodb").delete_item(TableName=name, Key=key)


def query(asking: Asking, where: str) -> None:
    name, key = key_of(where)
    asking.client("dynamodb").query(
        TableName=name,
        KeyConditionExpression="#s = :s AND begins_with(#i, :p)",
        ExpressionAttributeNames={"#s": "scope", "#i": "item"},
        ExpressionAttributeValues={":s": key["scope"], ":p": {"S": "line/"}},
    )


def batch(asking: Asking, where: str) -> None:
    """A batch whose first key is the asking tenant's own."""
    name, key = key_of(where)
    own = {"scope": {"S": "tell/alpha/r/1/0/0"}, "item": {"S": "set"}}
    asking.client("dynamodb").batch_get_item(RequestItems={name: {"Keys": [own, key]}})


def transact(asking: Asking, where: str) -> None:
    name, key = key_of(where)
    asking.client("dynamodb").transact_write_items(TransactItems=[{"Put": {"TableName": name, "Item": key}}])


def scan(asking: Asking, where: str) -> None:
    asking.client("dynamodb").scan(TableName=table(where))


def partiql(asking: Asking, where: str) -> None:
    asking.client("dynamodb").execute_statement(Statement=f'SELECT * FROM "{table(where)}"')


def drop_table(asking: Asking, where: str) -> None:
    asking.client("dynamodb").delete_table(TableName=table(where))


def invoke(asking: Asking, where: str) -> None:
    tenant, name, qualifier = where.split(":")
    arn = function(tenant, name, qualifier)
    asking.client("lambda").invoke(FunctionName=arn, InvocationType="Event", Payload=b"{}")


def change_function(asking: Asking, where: str) -> None:
    tenant, name, _ = where.split(":")
    asking.client("lambda").update_function_configuration(FunctionName=function(tenant, name, ""), MemorySize=256)


def log(asking: Asking, where: str) -> None:
    group, stream = f"/marless/{where}", f"s-{uuid.uuid4()}"
    asking.client("logs").create_log_stream(logGroupName=group, logStreamName=stream)
    events = [{"timestamp": 1_700_000_000_000, "message": "x"}]
    asking.client("logs").put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)


def read_log(asking: Asking, where: str) -> None:
    asking.client("logs").filter_log_events(logGroupName=f"/marless/{where}")


def send(asking: Asking, where: str) -> None:
    asking.client("sqs").send_message(QueueUrl=queue(where), MessageBody="x")


def receive(asking: Asking, where: str) -> None:
    asking.client("sqs").receive_message(QueueUrl=queue(where))


def become(asking: Asking, where: str) -> None:
    tenant, name = where.split(":")
    asking.client("sts").assume_role(RoleArn=role(tenant, name), RoleSessionName="other")


def delete_stack(asking: Asking, where: str) -> None:
    asking.client("cloudformation").delete_stack(StackName=where)


def create_role(asking: Asking, where: str) -> None:
    asking.client("iam").create_role(RoleName="mine", AssumeRolePolicyDocument="{}")


def put_metric(asking: Asking, where: str) -> None:
    asking.client("cloudwatch").put_metric_data(Namespace="MARLess", MetricData=[{"MetricName": "Spend", "Value": 0}])


Ask = Callable[[Asking, str], None]
YES, NO = True, False

# Who does what where, and whether that is allowed.
QUESTIONS: list[tuple[str, Ask, str, bool]] = [
    # An actor reads policies, stores trajectories and descriptions, and nothing else.
    ("Actor", get, f"alpha:alpha/{POLICIES}", YES),
    ("Actor", head, f"alpha:alpha/{POLICIES}", YES),
    ("Actor", get, f"alpha:alpha/{TRAJECTORY}", YES),
    ("Actor", get, f"alpha:alpha/{DESCRIBED}", YES),
    ("Actor", get, f"alpha:alpha/{LEARNER}", NO),
    ("Actor", get, f"alpha:alpha/{TENSORS}", NO),
    ("Actor", get, f"alpha:alpha/{EVALUATED}", NO),
    ("Actor", get, f"alpha:alpha/{SPILLED}", NO),
    ("Actor", put, f"alpha:alpha/{TRAJECTORY}", YES),
    ("Actor", put_tagged, f"alpha:alpha/{TRAJECTORY}", YES),
    ("Actor", put_tagged_otherwise, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", put_tagged_twice, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", tag, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", put, f"alpha:alpha/{DESCRIBED}", YES),
    ("Actor", put_tagged, f"alpha:alpha/{DESCRIBED}", NO),
    ("Actor", put, f"alpha:alpha/{POLICIES}", NO),
    ("Actor", put, f"alpha:alpha/{WHOLE}", NO),
    ("Actor", put, f"alpha:alpha/{EVALUATED}", NO),
    ("Actor", put, f"alpha:alpha/{SPILLED}", NO),
    ("Actor", publish, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", delete, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", delete_many, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", upload_once, f"alpha:alpha/{TRAJECTORY}", YES),
    ("Actor", upload_once, f"alpha:alpha/{POLICIES}", NO),
    ("Actor", list_under, "alpha:alpha/rounds/000001/", YES),
    ("Actor", list_under, "alpha:alpha/ledger/", NO),
    ("Actor", list_all, "alpha", NO),
    ("Actor", list_versions, "alpha", NO),
    # A learner reads trajectories and stores what is learned.
    ("Learner", get, f"alpha:alpha/{TRAJECTORY}", YES),
    ("Learner", get, f"alpha:alpha/{LEARNER}", YES),
    ("Learner", put, f"alpha:alpha/{POLICIES}", YES),
    ("Learner", put, f"alpha:alpha/{TENSORS}", YES),
    ("Learner", put, f"alpha:alpha/{WHOLE}", YES),
    ("Learner", put, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Learner", put, f"alpha:alpha/{EVALUATED}", NO),
    ("Learner", put_tagged, f"alpha:alpha/{POLICIES}", NO),
    ("Learner", delete, f"alpha:alpha/{LEARNER}", NO),
    ("Learner", get, f"alpha:alpha/{SPILLED}", NO),
    # An evaluator reads policies and stores replies.
    ("Evaluator", get, f"alpha:alpha/{POLICIES}", YES),
    ("Evaluator", get, f"alpha:alpha/{EVALUATED}", YES),
    ("Evaluator", put, f"alpha:alpha/{EVALUATED}", YES),
    ("Evaluator", put, f"alpha:alpha/{TRIED}", YES),
    ("Evaluator", put, f"alpha:alpha/{DESCRIBED}", NO),
    ("Evaluator", put, f"alpha:alpha/{POLICIES}", NO),
    ("Evaluator", get, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Evaluator", get, f"alpha:alpha/{LEARNER}", NO),
    ("Evaluator", delete, f"alpha:alpha/{EVALUATED}", NO),
    # The coordinator keeps all of its tenant's runs.
    ("Coordinator", get, f"alpha:alpha/{LEARNER}", YES),
    ("Coordinator", put, f"alpha:alpha/{SPILLED}", YES),
    ("Coordinator", delete, f"alpha:alpha/{TRAJECTORY}", YES),
    ("Coordinator", delete_many, f"alpha:alpha/{LEARNER}", YES),
    ("Coordinator", delete_many, f"alpha:beta/{LEARNER}", NO),
    ("Coordinator", list_under, "alpha:alpha/rounds/", YES),
    ("Coordinator", list_under, "alpha:alpha/ledger/state/", YES),
    ("Coordinator", list_under, "alpha:beta/rounds/", NO),
    ("Coordinator", list_all, "alpha", NO),
    ("Coordinator", tag, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Coordinator", list_buckets, "alpha", NO),
    ("Coordinator", change_bucket_policy, "alpha", NO),
    # Nobody replaces an object, and nobody writes without a condition.
    ("Actor", put_always, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Actor", overwrite, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Learner", overwrite, f"alpha:alpha/{POLICIES}", NO),
    ("Learner", put_if_match, f"alpha:alpha/{POLICIES}", NO),
    ("Actor", upload, f"alpha:alpha/{TRAJECTORY}", NO),
    ("Coordinator", overwrite, f"alpha:alpha/{POLICIES}", NO),
    ("operator", overwrite, f"alpha:alpha/{POLICIES}", NO),
    ("operator", put, f"alpha:alpha/{POLICIES}", YES),
    ("operator", upload, f"alpha:alpha/{POLICIES}", NO),
    ("operator", upload_once, f"alpha:alpha/{POLICIES}", YES),
    # Copies read what they copy, and cannot be conditional.
    ("Actor", copy, f"alpha:alpha/{POLICIES}", NO),
    ("Actor", copy, f"beta:beta/{POLICIES}", NO),
    ("Coordinator", copy, f"alpha:beta/{POLICIES}", NO),
    ("operator", copy, f"alpha:alpha/{POLICIES}", NO),
    # Another tenant's keys, in its bucket and in one's own.
    ("Actor", get, f"beta:beta/{POLICIES}", NO),
    ("Actor", get, f"alpha:beta/{POLICIES}", NO),
    ("Actor", get, f"beta:alpha/{POLICIES}", NO),
    ("Actor", head, f"alpha:beta/{POLICIES}", NO),
    ("Actor", put, f"alpha:beta/{TRAJECTORY}", NO),
    ("Actor", put, f"beta:beta/{TRAJECTORY}", NO),
    ("Actor", list_under, "alpha:beta/rounds/", NO),
    ("Actor", list_under, "beta:alpha/rounds/", NO),
    ("Learner", get, f"alpha:beta/{LEARNER}", NO),
    ("Learner", put, f"alpha:beta/{LEARNER}", NO),
    ("Evaluator", put, f"beta:beta/{EVALUATED}", NO),
    ("Coordinator", get, f"alpha:beta/{LEARNER}", NO),
    ("Coordinator", put, f"beta:beta/{SPILLED}", NO),
    ("Coordinator", delete, f"beta:alpha/{TRAJECTORY}", NO),
    # Workers report the end of a task, and do not see the ledger.
    ("Actor", add_member, "alpha:tell/alpha/r/1/0/0", YES),
    ("Learner", add_member, "alpha:tell/alpha/r/1/0/0", YES),
    ("Evaluator", add_member, "alpha:tell/alpha/r/1/0/0", YES),
    ("Actor", add_member, "alpha:tell/beta/r/1/0/0", NO),
    ("Actor", add_member, "alpha:tell/alpha2/r/1/0/0", NO),
    ("Actor", add_member, "beta:tell/alpha/r/1/0/0", NO),
    ("Actor", add_member, "alpha:run/alpha/r", NO),
    ("Learner", add_member, "alpha:run/alpha/r", NO),
    ("Actor", get_item, "alpha:tell/alpha/r/1/0/0", NO),
    ("Actor", put_item, "alpha:tell/alpha/r/1/0/0", NO),
    ("Actor", query, "alpha:run/alpha/r", NO),
    ("Evaluator", batch, "alpha:tell/alpha/r/1/0/0", NO),
    ("Actor", scan, "alpha", NO),
    # The coordinator keeps the ledgers, the sets and the list of live runs of its tenant.
    ("Coordinator", get_item, "alpha:run/alpha/r", YES),
    ("Coordinator", put_item, "alpha:run/alpha/r", YES),
    ("Coordinator", delete_item, "alpha:live/alpha", YES),
    ("Coordinator", query, "alpha:live/alpha", YES),
    ("Coordinator", batch, "alpha:tell/alpha/r/1/0/1", YES),
    ("Coordinator", add_member, "alpha:tell/alpha/r/1/0/0", YES),
    ("Coordinator", get_item, "alpha:run/beta/r", NO),
    ("Coordinator", put_item, "beta:run/alpha/r", NO),
    ("Coordinator", query, "alpha:live/beta", NO),
    ("Coordinator", batch, "alpha:run/beta/r", NO),
    ("Coordinator", transact, "alpha:run/alpha/r", YES),
    ("Coordinator", transact, "alpha:run/beta/r", NO),
    ("Coordinator", scan, "alpha", NO),
    ("Coordinator", partiql, "alpha", NO),
    ("Coordinator", drop_table, "alpha", NO),
    # Workers wake the coordinator, on a published version; the coordinator starts the four.
    ("Actor", invoke, "alpha:coordinator:7", YES),
    ("Learner", invoke, "alpha:coordinator:live", YES),
    ("Evaluator", invoke, "alpha:coordinator:7", YES),
    ("Actor", invoke, "alpha:coordinator:", NO),
    ("Actor", invoke, "alpha:learner:7", NO),
    ("Actor", invoke, "alpha:actor:7", NO),
    ("Actor", invoke, "beta:coordinator:7", NO),
    ("Coordinator", invoke, "alpha:actor:7", YES),
    ("Coordinator", invoke, "alpha:learner:7", YES),
    ("Coordinator", invoke, "alpha:evaluator:7", YES),
    ("Coordinator", invoke, "alpha:coordinator:7", YES),
    ("Coordinator", invoke, "alpha:actor:", NO),
    ("Coordinator", invoke, "alpha:unrelated:7", NO),
    ("Coordinator", invoke, "beta:actor:7", NO),
    ("Coordinator", change_function, "alpha:actor:", NO),
    # Logs and dead letters: one's own, and only to write.
    ("Actor", log, "alpha/actor", YES),
    ("Coordinator", log, "alpha/coordinator", YES),
    ("Actor", log, "alpha/learner", NO),
    ("Actor", log, "beta/actor", NO),
    ("Actor", read_log, "alpha/actor", NO),
    ("Actor", send, "alpha", YES),
    ("Evaluator", send, "beta", NO),
    ("Coordinator", receive, "alpha", NO),
    # Nobody gets further than that.
    ("Actor", become, "alpha:Coordinator", NO),
    ("Coordinator", become, "beta:Coordinator", NO),
    ("Coordinator", delete_stack, "marless-alpha", NO),
    ("Coordinator", create_role, "", NO),
    ("Actor", put_metric, "", NO),
]


def _name(question: tuple[str, Ask, str, bool]) -> str:
    who, ask, where, allowed = question
    return f"{who} may{'' if allowed else ' not'} {ask.__name__} {where}"


@pytest.mark.parametrize("question", QUESTIONS, ids=_name)
def test_a_role_may_do_what_it_has_to_and_nothing_else(place: Place, question: tuple[str, Ask, str, bool]) -> None:
    who, ask, where, allowed = question
    try:
        ask(Asking(place, who), where)
    except ClientError as error:
        assert not allowed, error
        assert error.response["Error"]["Code"] in DENIED, error
    else:
        assert allowed


@pytest.mark.parametrize("who", ["Actor", "Learner", "Evaluator", "Coordinator"])
def test_a_key_that_holds_nothing_is_told_from_one_that_is_forbidden(place: Place, who: str) -> None:
    client = place.client("alpha", who, "s3")
    with pytest.raises(client.exceptions.NoSuchKey):
        client.get_object(**fresh(f"alpha:alpha/{POLICIES}"))
    with pytest.raises(ClientError) as refused:
        client.get_object(**fresh(f"alpha:beta/{POLICIES}"))
    assert refused.value.response["Error"]["Code"] == "AccessDenied"


def test_a_refusal_says_who_may_not_do_what_on_what(place: Place) -> None:
    client = place.client("alpha", "Actor", "s3")
    at = fresh(f"alpha:beta/{POLICIES}")
    with pytest.raises(ClientError) as refused:
        client.get_object(**at)
    assert refused.value.response["Error"]["Message"] == (
        "User: arn:aws:sts::123456789012:assumed-role/marless-alpha-ActorRole/function is not authorized to perform: "
        f's3:GetObject on resource: "arn:aws:s3:::marless-alpha-objects/{at["Key"]}" '
        "because no identity-based policy allows the s3:GetObject action"
    )


def test_requests_that_did_not_come_over_tls_are_refused_to_everybody(place: Place) -> None:
    for client in (place.client("alpha", "Coordinator", "s3"), place.operator("s3")):
        insecure = _with_header(client, "X-Emulated-Secure-Transport", "false")
        with pytest.raises(ClientError) as refused, insecure:
            client.list_objects_v2(Bucket=bucket("alpha"), Prefix="tenants/alpha/runs/r/")
        assert "explicit deny (OnlyOverTls)" in refused.value.response["Error"]["Message"]


class _with_header:  # noqa: N801
    """Every request of a client has one more header."""

    def __init__(self, client: Any, name: str, value: str) -> None:
        self._client, self._name, self._value = client, name, value

    def __enter__(self) -> None:
        self._client.meta.events.register_last("before-sign.s3", self._add, unique_id="header")

    def __exit__(self, *_: object) -> None:
        self._client.meta.events.unregister("before-sign.s3", self._add, unique_id="header")

    def _add(self, request: Any, **_: Any) -> None:
        request.headers[self._name] = self._value
