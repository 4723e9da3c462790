"""Storage resources: buckets, tables, queues and log groups."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aws_emulator.cloudformation.resources.kind import (
    Clients,
    PhysicalResource,
    Properties,
    changed_properties,
    delete_on_failure,
)
from aws_emulator.iam.role_policies import Rules


class Bucket:
    """AWS::S3::Bucket."""

    create_only = frozenset[str]()

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        """See `Kind`."""
        client = self._clients("s3")
        region = client.meta.region_name
        # S3 refuses us-east-1 as a location constraint (API_CreateBucket, LocationConstraint).
        place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        client.create_bucket(Bucket=name, **place)
        with delete_on_failure(self, PhysicalResource(name, {"Arn": f"arn:aws:s3:::{name}"}), properties) as physical:
            self.update(physical, {}, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        """See `Kind`."""
        settings: dict[str, Callable[[str, Any], None]] = {
            "BucketEncryption": self._encryption,
            "PublicAccessBlockConfiguration": self._public_access,
            "OwnershipControls": self._ownership,
            "LifecycleConfiguration": self._lifecycle,
        }
        for name, value in changed_properties(before, after).items():
            settings[name](physical.id, value)

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        with suppress(self._clients("s3").exceptions.NoSuchBucket):
            self._clients("s3").delete_bucket(Bucket=physical.id)

    def _encryption(self, bucket: str, value: Any) -> None:
        client = self._clients("s3")
        if value is None:
            client.delete_bucket_encryption(Bucket=bucket)
            return
        rules = [
            {_SPELT_BY_THE_API.get(key, key): item for key, item in rule.items()}
            for rule in value["ServerSideEncryptionConfiguration"]
        ]
        client.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})

    def _public_access(self, bucket: str, value: Any) -> None:
        client = self._clients("s3")
        if value is None:
            client.delete_public_access_block(Bucket=bucket)
        else:
            client.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=value)

    def _ownership(self, bucket: str, value: Any) -> None:
        client = self._clients("s3")
        if value is None:
            client.delete_bucket_ownership_controls(Bucket=bucket)
        else:
            client.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=value)

    def _lifecycle(self, bucket: str, value: Any) -> None:
        client = self._clients("s3")
        if value is None:
            client.delete_bucket_lifecycle(Bucket=bucket)
            return
        rules = [_rule(rule) for rule in value["Rules"]]
        client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


_SPELT_BY_THE_API = {"ServerSideEncryptionByDefault": "ApplyServerSideEncryptionByDefault"}


def _rule(rule: Properties) -> dict[str, Any]:
    """A bucket's lifecycle rule in the form of the API (API_LifecycleRule)."""
    tags = rule.get("TagFilters", [])
    rule_filter = {"And": {"Tags": tags}} if len(tags) > 1 else {"Tag": tags[0]} if tags else {"Prefix": ""}
    settings = {"ID": rule["Id"], "Status": rule["Status"], "Filter": rule_filter}
    if "ExpirationInDays" in rule:
        settings["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    spelt_alike = ("NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload")
    return settings | {key: rule[key] for key in spelt_alike if key in rule}


class Table:
    """AWS::DynamoDB::Table."""

    create_only = frozenset({"AttributeDefinitions", "KeySchema"})

    def __init__(self, clients: Clients, rules: Rules) -> None:
        self._clients, self._rules = clients, rules

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        """See `Kind`."""
        initial_properties = {key: properties[key] for key in _OF_A_NEW_TABLE if key in properties}
        settings = {
            key: _encryption(value) if key == "SSESpecification" else value for key, value in initial_properties.items()
        }
        table = self._clients("dynamodb").create_table(TableName=name, **settings)["TableDescription"]
        physical = PhysicalResource(table["TableName"], {"Arn": table["TableArn"]})
        partition_key = next(key["AttributeName"] for key in properties["KeySchema"] if key["KeyType"] == "HASH")
        self._rules.put_table(physical.id, partition_key)
        with delete_on_failure(self, physical, properties):
            self.update(physical, initial_properties, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        """See `Kind`."""
        client = self._clients("dynamodb")
        for name, value in changed_properties(before, after).items():
            if name == "TimeToLiveSpecification":
                off = {**before.get(name, {}), "Enabled": False}
                client.update_time_to_live(TableName=physical.id, TimeToLiveSpecification=value or off)
            elif name == "PointInTimeRecoverySpecification":
                off = {"PointInTimeRecoveryEnabled": False}
                client.update_continuous_backups(TableName=physical.id, PointInTimeRecoverySpecification=value or off)
            elif name == "SSESpecification":
                client.update_table(TableName=physical.id, SSESpecification=_encryption(value or {"SSEEnabled": False}))
            else:
                client.update_table(TableName=physical.id, **{name: value})

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        with suppress(self._clients("dynamodb").exceptions.ResourceNotFoundException):
            self._clients("dynamodb").delete_table(TableName=physical.id)
        self._rules.drop_table(physical.id)


def _encryption(value: Properties) -> dict[str, Any]:
    """A table's SSESpecification in the form of the API."""
    return {
        "Enabled": value["SSEEnabled"],
        **{key: value[key] for key in ("SSEType", "KMSMasterKeyId") if key in value},
    }


_OF_A_NEW_TABLE = ("AttributeDefinitions", "KeySchema", "BillingMode", "SSESpecification")


class Queue:
    """AWS::SQS::Queue."""

    create_only = frozenset[str]()

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        client = self._clients("sqs")
        url = client.create_queue(QueueName=name, Attributes=_attributes(properties))["QueueUrl"]
        arn = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return PhysicalResource(url, {"Arn": arn, "QueueName": arn.rpartition(":")[2], "QueueUrl": url})

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        unset = {"KmsMasterKeyId": ""} if "KmsMasterKeyId" in before else {}
        self._clients("sqs").set_queue_attributes(QueueUrl=physical.id, Attributes={**unset, **_attributes(after)})

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        with suppress(self._clients("sqs").exceptions.QueueDoesNotExist):
            self._clients("sqs").delete_queue(QueueUrl=physical.id)


def _attributes(properties: Properties) -> dict[str, str]:
    """A queue's properties as text, the form of the API."""
    return {name: json.dumps(value) if isinstance(value, bool) else str(value) for name, value in properties.items()}


class LogGroup:
    """AWS::Logs::LogGroup."""

    create_only = frozenset({"LogGroupName"})

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        """See `Kind`."""
        client = self._clients("logs")
        group = properties.get("LogGroupName", name)
        client.create_log_group(logGroupName=group)
        groups = client.describe_log_groups(logGroupNamePrefix=group)["logGroups"]
        physical = PhysicalResource(group, {"Arn": next(g["arn"] for g in groups if g["logGroupName"] == group)})
        with delete_on_failure(self, physical, properties):
            self.update(physical, {}, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        client, days = self._clients("logs"), after.get("RetentionInDays")
        if days is None:
            client.delete_retention_policy(logGroupName=physical.id)
        else:
            client.put_retention_policy(logGroupName=physical.id, retentionInDays=int(days))

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        with suppress(self._clients("logs").exceptions.ResourceNotFoundException):
            self._clients("logs").delete_log_group(logGroupName=physical.id)


class BucketPolicy:
    """AWS::S3::BucketPolicy. moto does not get the policy, because it ignores the conditions of a `Deny`."""

    create_only = frozenset({"Bucket"})

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        physical = PhysicalResource(properties["Bucket"])
        self.update(physical, {}, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        self._rules.put_bucket_policy(physical.id, after["PolicyDocument"])

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        self._rules.drop_bucket_policy(physical.id)
