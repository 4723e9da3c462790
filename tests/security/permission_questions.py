"""Requests to an account of two tenants. The callers belong to tenant alpha.

A place is ``<tenant of the bucket>:<tenant of the key>/<rest of the key>``.
"""

import uuid
from typing import Any

from two_tenants import TenantsAccount, bucket, function, queue, table

ONCE = {"IfNoneMatch": "*"}
TAGGED = "marless-kind=trajectory"

POLICIES = "rounds/000001/learn/all.policies.safetensors"
OPPONENTS = "rounds/opponents.policies.safetensors"
DATASET = "rounds/offline-0123456789abcdef.dataset.safetensors"
LEARNER = "rounds/000001/learn/all.learner.safetensors"
TENSORS = "rounds/000001/learn/advantages.tensors.safetensors"
WHOLE = "rounds/000001/sample/whole-001.learner.safetensors"
PLAYED = "rounds/000001/sample/whole-001.played.safetensors"
TRAJECTORY = "rounds/000001/sample/00000-00003.trajectory.safetensors"
DESCRIBED = "rounds/000000/describe.reply.safetensors"
EVALUATED = "rounds/000001/evaluate/000.reply.safetensors"
TRIED = "rounds/000001/trial/old/000/001.reply.safetensors"
SPILLED = "ledger/state/12-abc"
GIVEN = (OPPONENTS, DATASET)
KINDS = (POLICIES, *GIVEN, LEARNER, TENSORS, WHOLE, PLAYED, TRAJECTORY, DESCRIBED, EVALUATED, TRIED, SPILLED)


class Asking:
    """A caller: `place`, and the role's name."""

    def __init__(self, place: TenantsAccount, who: str) -> None:
        self._place, self._who = place, who
        self.operator = place.operator

    def client(self, service: str) -> Any:
        if self._who == "operator":
            return self._place.operator(service)
        return self._place.client("alpha", self._who, service)


def address(where: str) -> dict[str, str]:
    owner, _, path = where.partition(":")
    tenant, _, rest = path.partition("/")
    return {"Bucket": bucket(owner), "Key": f"tenants/{tenant}/runs/r/{rest}"}


def fresh(where: str) -> dict[str, str]:
    at = address(where)
    return {**at, "Key": at["Key"].replace("/runs/r/", f"/runs/{uuid.uuid4()}/")}


def held(asking: Asking, where: str) -> dict[str, str]:
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
    asking.client("s3").put_object(**fresh(where), Body=b"x", Tagging=TAGGED, **ONCE)


def put_tagged_otherwise(asking: Asking, where: str) -> None:
    asking.client("s3").put_object(**fresh(where), Body=b"x", Tagging="marless-kind=policies", **ONCE)


def put_tagged_twice(asking: Asking, where: str) -> None:
    asking.client("s3").put_object(**fresh(where), Body=b"x", Tagging=f"{TAGGED}&public=yes", **ONCE)


def delete(asking: Asking, where: str) -> None:
    asking.client("s3").delete_object(**held(asking, where))


def delete_many(asking: Asking, where: str) -> None:
    """Delete several keys. The caller owns the first of them."""
    own, at = held(asking, f"{where.partition(':')[0]}:alpha/{TRAJECTORY}"), held(asking, where)
    objects = [{"Key": own["Key"]}, {"Key": at["Key"]}]
    asking.client("s3").delete_objects(Bucket=at["Bucket"], Delete={"Objects": objects})


def copy(asking: Asking, where: str) -> None:
    """A copy from the place to a key that the role may write."""
    source, target = held(asking, where), fresh(f"alpha:alpha/{TRAJECTORY}")
    asking.client("s3").copy_object(**target, CopySource=source)


def copy_part(asking: Asking, where: str) -> None:
    """The same, as a part of an upload, which creates no object yet."""
    source, target = held(asking, where), fresh(f"alpha:alpha/{TRAJECTORY}")
    id = asking.client("s3").create_multipart_upload(**target)["UploadId"]
    asking.client("s3").upload_part_copy(**target, UploadId=id, PartNumber=1, CopySource=source)


def get_version(asking: Asking, where: str) -> None:
    asking.client("s3").get_object(**held(asking, where), VersionId="null")


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


def key_of(where: str) -> tuple[str, dict[str, Any]]:
    owner, _, scope = where.partition(":")
    return table(owner), {"scope": {"S": scope}, "item": {"S": "state"}}


def add_member(asking: Asking, where: str) -> None:
    _update(asking, where, "ADD members :m SET expires_at = :e", {":m": {"BS": [b"1"]}, ":e": {"N": "1"}})


def add_member_and_read_all(asking: Asking, where: str) -> None:
    _update(asking, where, "ADD members :m", {":m": {"BS": [b"1"]}}, ReturnValues="ALL_NEW")


def set_another_attribute(asking: Asking, where: str) -> None:
    names = {"ExpressionAttributeNames": {"#other": "version"}}
    _update(asking, where, "SET expires_at = :e, #other = :e", {":e": {"N": "1"}}, **names)


def set_if_another_attribute(asking: Asking, where: str) -> None:
    condition = {"ConditionExpression": "attribute_not_exists(body)"}
    _update(asking, where, "SET expires_at = :e", {":e": {"N": "1"}}, **condition)


def _update(asking: Asking, where: str, expression: str, values: dict[str, Any], **more: Any) -> None:
    name, key = key_of(where)
    fields = {"UpdateExpression": expression, "ExpressionAttributeValues": values, "ReturnValues": "UPDATED_NEW"}
    asking.client("dynamodb").update_item(TableName=name, Key=key, **{**fields, **more})


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
    name, key = key_of(where)
    own = {"scope": {"S": "sets/alpha/r/1/0/0"}, "item": {"S": "set"}}
    asking.client("dynamodb").batch_get_item(RequestItems={name: {"Keys": [own, key]}})


def transact(asking: Asking, where: str) -> None:
    name, key = key_of(where)
    asking.client("dynamodb").transact_write_items(TransactItems=[{"Put": {"TableName": name, "Item": key}}])


def transact_updates(asking: Asking, where: str) -> None:
    """Send two updates together. Only the first is allowed."""
    name, key = key_of(where)
    own = {"scope": {"S": f"sets/alpha/{uuid.uuid4()}/1/0/0"}, "item": {"S": "set"}}
    update = {"UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"N": "1"}}}
    items = [{"Update": {"TableName": name, "Key": one, **update}} for one in (own, key)]
    asking.client("dynamodb").transact_write_items(TransactItems=items)


def invoke(asking: Asking, where: str) -> None:
    tenant, name, qualifier = where.split(":")
    arn = function(tenant, name, qualifier)
    asking.client("lambda").invoke(FunctionName=arn, InvocationType="Event", Payload=b"{}")


def log(asking: Asking, where: str) -> None:
    group, stream = f"/marless/{where}", f"s-{uuid.uuid4()}"
    asking.client("logs").create_log_stream(logGroupName=group, logStreamName=stream)
    events = [{"timestamp": 1_700_000_000_000, "message": "x"}]
    asking.client("logs").put_log_events(logGroupName=group, logStreamName=stream, logEvents=events)


def send(asking: Asking, where: str) -> None:
    asking.client("sqs").send_message(QueueUrl=queue(where), MessageBody="x")
