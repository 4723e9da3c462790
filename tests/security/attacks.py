"""Attacks by third-party code with the credentials of the function that runs it; all must fail."""

from collections.abc import Iterator
from typing import Any

from permission_questions import POLICIES, TAGGED, TRAJECTORY
from two_tenants import ACCOUNT, REGION, bucket, function, queue, role, table

Attack = tuple[str, str, dict[str, Any]]
"""Service, operation, and the fields of the request."""

_OPEN = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}'


def attacks(tenant: str) -> Iterator[Attack]:
    """Requests for the resources of a tenant's stack and of its account."""
    for service, operations in {
        "s3": {**_on_objects(tenant), **_on_bucket(tenant)},
        "dynamodb": _on_table(tenant),
        "lambda": _on_functions(tenant),
        "sqs": _on_queue(tenant),
        "logs": _on_logs(tenant),
        "sts": _on_roles(tenant),
        "iam": _on_policies(tenant),
        **_on_the_rest(tenant),
    }.items():
        for operation, fields in operations.items():
            yield service, operation, fields


def _on_objects(tenant: str) -> dict[str, dict[str, Any]]:
    """Requests other than reading and writing; whether the object exists makes no difference."""
    policies = {"Bucket": bucket(tenant), "Key": f"tenants/{tenant}/runs/r/{POLICIES}"}
    trajectory = {"Bucket": bucket(tenant), "Key": f"tenants/{tenant}/runs/r/{TRAJECTORY}"}
    tags = {"Tagging": {"TagSet": [{"Key": "public", "Value": "yes"}]}}
    csv = {"CSV": {}}
    select = {"Expression": "SELECT * FROM s3object", "ExpressionType": "SQL"}
    return {
        "get_object_acl": trajectory,
        "put_object_acl": {**trajectory, "ACL": "public-read"},
        "put_object": {**trajectory, "Body": b"x", "IfNoneMatch": "*", "ACL": "public-read"},
        "get_object_tagging": trajectory,
        "put_object_tagging": {**trajectory, **tags},
        "delete_object_tagging": trajectory,
        "get_object_attributes": {**policies, "ObjectAttributes": ["ETag"]},
        "get_object_torrent": policies,
        "select_object_content": {**policies, **select, "InputSerialization": csv, "OutputSerialization": csv},
        "restore_object": {**policies, "RestoreRequest": {"Days": 1}},
        "put_object_legal_hold": {**trajectory, "LegalHold": {"Status": "ON"}},
        "put_object_retention": {**trajectory, "BypassGovernanceRetention": True},
        "copy_object": {**trajectory, "CopySource": policies, "Tagging": TAGGED, "TaggingDirective": "REPLACE"},
        "abort_multipart_upload": {**trajectory, "UploadId": "x"},
        "list_parts": {**trajectory, "UploadId": "x"},
    }


def _on_bucket(tenant: str) -> dict[str, dict[str, Any]]:
    name = {"Bucket": bucket(tenant)}
    rule = {"ID": "all", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
    return {
        "list_buckets": {},
        "head_bucket": name,
        "list_objects": name,
        "list_objects_v2": {**name, "Prefix": f"tenants/{tenant}/"},
        "list_object_versions": {**name, "Prefix": f"tenants/{tenant}/runs/r/rounds/"},
        "list_multipart_uploads": {**name, "Prefix": f"tenants/{tenant}/runs/r/rounds/"},
        "get_bucket_policy": name,
        "put_bucket_policy": {**name, "Policy": _OPEN},
        "delete_bucket_policy": name,
        "put_bucket_acl": {**name, "ACL": "public-read"},
        "put_bucket_versioning": {**name, "VersioningConfiguration": {"Status": "Suspended"}},
        "put_bucket_lifecycle_configuration": {**name, "LifecycleConfiguration": {"Rules": [rule]}},
        "put_bucket_notification_configuration": {**name, "NotificationConfiguration": {}},
        "delete_public_access_block": name,
        "delete_bucket": name,
        "create_bucket": {"Bucket": "mine"},
    }


def _on_table(tenant: str) -> dict[str, dict[str, Any]]:
    name = {"TableName": table(tenant)}
    arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table(tenant)}"
    read = {"Statement": f'SELECT * FROM "{table(tenant)}"'}
    key = {"scope": {"S": "run/beta/r"}, "item": {"S": "state"}}
    return {
        "scan": name,
        "execute_statement": read,
        "batch_execute_statement": {"Statements": [read]},
        "execute_transaction": {"TransactStatements": [read]},
        "transact_get_items": {"TransactItems": [{"Get": {**name, "Key": key}}]},
        "batch_write_item": {"RequestItems": {table(tenant): [{"PutRequest": {"Item": key}}]}},
        "export_table_to_point_in_time": {"TableArn": arn, "S3Bucket": "mine"},
        "create_backup": {**name, "BackupName": "mine"},
        "restore_table_to_point_in_time": {"SourceTableName": table(tenant), "TargetTableName": "mine"},
        "describe_table": name,
        "update_table": {**name, "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}},
        "update_time_to_live": {**name, "TimeToLiveSpecification": {"Enabled": False, "AttributeName": "at"}},
        "put_resource_policy": {"ResourceArn": arn, "Policy": _OPEN},
        "delete_table": name,
        "list_tables": {},
    }


def _on_functions(tenant: str) -> dict[str, dict[str, Any]]:
    coordinator, actor = (function(tenant, name, "") for name in ("coordinator", "actor"))
    named = {"FunctionName": coordinator}
    public = {"StatementId": "all", "Action": "lambda:InvokeFunction", "Principal": "*"}
    new = {"FunctionName": "mine", "Role": role(tenant, "Coordinator"), "Code": {"ZipFile": b"x"}}
    return {
        "list_functions": {},
        "get_function": named,
        "get_function_configuration": named,
        "create_function": {**new, "Runtime": "python3.12", "Handler": "m.h"},
        "update_function_code": {**named, "ZipFile": b"x"},
        "update_function_configuration": {"FunctionName": actor, "Role": role(tenant, "Coordinator")},
        "publish_version": named,
        "update_alias": {**named, "Name": "live", "FunctionVersion": "1"},
        "add_permission": {**named, **public},
        "create_function_url_config": {**named, "AuthType": "NONE"},
        "create_event_source_mapping": {**named, "EventSourceArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:mine"},
        "put_function_concurrency": {**named, "ReservedConcurrentExecutions": 0},
        "put_function_event_invoke_config": {**named, "MaximumRetryAttempts": 2},
        "delete_function": named,
        # Without a qualifier the unpublished code runs.
        "invoke": {**named, "Payload": b"{}"},
    }


def _on_queue(tenant: str) -> dict[str, dict[str, Any]]:
    at = {"QueueUrl": queue(tenant)}
    return {
        "receive_message": at,
        "delete_message": {**at, "ReceiptHandle": "x"},
        "purge_queue": at,
        "get_queue_attributes": at,
        "set_queue_attributes": {**at, "Attributes": {"Policy": _OPEN}},
        "delete_queue": at,
        "list_queues": {},
    }


def _on_logs(tenant: str) -> dict[str, dict[str, Any]]:
    group = {"logGroupName": f"/marless/{tenant}/evaluator"}
    stream = {**group, "logStreamName": "s"}
    return {
        "filter_log_events": group,
        "get_log_events": stream,
        "describe_log_groups": {},
        "describe_log_streams": group,
        "start_query": {**group, "startTime": 0, "endTime": 1, "queryString": "fields @message"},
        "put_retention_policy": {**group, "retentionInDays": 1},
        "put_subscription_filter": {**group, "filterName": "f", "filterPattern": "", "destinationArn": "x"},
        "delete_log_stream": stream,
        "delete_log_group": group,
        "create_log_group": {"logGroupName": "/mine"},
    }


def _on_roles(tenant: str) -> dict[str, dict[str, Any]]:
    return {
        "assume_role": {"RoleArn": role(tenant, "Coordinator"), "RoleSessionName": "other"},
        "get_session_token": {},
        "get_federation_token": {"Name": "mine"},
    }


def _on_policies(tenant: str) -> dict[str, dict[str, Any]]:
    called = {"RoleName": role(tenant, "Actor").rpartition("/")[2]}
    return {
        "list_roles": {},
        "get_role": called,
        "put_role_policy": {**called, "PolicyName": "actor", "PolicyDocument": _OPEN},
        "attach_role_policy": {**called, "PolicyArn": "arn:aws:iam::aws:policy/AdministratorAccess"},
        "update_assume_role_policy": {**called, "PolicyDocument": _OPEN},
        "create_role": {"RoleName": "mine", "AssumeRolePolicyDocument": _OPEN},
        "create_user": {"UserName": "mine"},
        "create_access_key": {"UserName": "operator"},
    }


def _on_the_rest(tenant: str) -> dict[str, dict[str, dict[str, Any]]]:
    topic = f"arn:aws:sns:{REGION}:{ACCOUNT}:marless-{tenant}-alarms"
    spend = [{"MetricName": "Spend", "Value": 0}]
    target = {"Id": "1", "Arn": function(tenant, "actor")}
    return {
        "cloudformation": {
            "describe_stacks": {},
            "get_template": {"StackName": f"marless-{tenant}"},
            "update_stack": {"StackName": f"marless-{tenant}", "UsePreviousTemplate": True},
            "delete_stack": {"StackName": f"marless-{tenant}"},
        },
        "cloudwatch": {
            "put_metric_data": {"Namespace": "MARLess", "MetricData": spend},
            "disable_alarm_actions": {"AlarmNames": ["Spending"]},
            "delete_alarms": {"AlarmNames": ["Spending"]},
        },
        "events": {"disable_rule": {"Name": "Sweep"}, "put_targets": {"Rule": "Sweep", "Targets": [target]}},
        "sns": {
            "publish": {"TopicArn": topic, "Message": "x"},
            "subscribe": {"TopicArn": topic, "Protocol": "email", "Endpoint": "me@example.org"},
        },
        "xray": {"put_trace_segments": {"TraceSegmentDocuments": ["{}"]}},
        "ecr": {"get_authorization_token": {}},
        "secretsmanager": {"list_secrets": {}},
    }
