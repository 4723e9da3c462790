"""The resource types and properties that the emulated account supports.

An entry names the part that implements the property: `moto` through the service's API, our `lambda`, or our `iam`.
`static` gives the reason why it has no effect. A stack with any other type or property fails. The error names it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aws_emulator.cloudformation.intrinsics import function

# The values of these properties are not checked: documents in another language, or names that the template chooses.
_WHOLE = ("AssumeRolePolicyDocument", "PolicyDocument", "Environment.Variables")

_NO_TIME = "static: time does not pass for objects here, an account lives for hours"
_NO_WIRE = "static: nothing leaves this machine"
_NO_KEY = "static: the services name the key, and nothing is encrypted with it here"
_NO_VPC = "static: functions reach this machine's network; a role that cannot make network interfaces is refused"
_NO_BILL = "static: AWS bills nothing here"
_NOTIFIED = "NotificationsWithSubscribers[]"

INVENTORY: Mapping[str, Mapping[str, str]] = {
    "AWS::S3::Bucket": {
        "BucketEncryption.ServerSideEncryptionConfiguration[].ServerSideEncryptionByDefault.SSEAlgorithm": "moto",
        "BucketEncryption.ServerSideEncryptionConfiguration[].ServerSideEncryptionByDefault.KMSMasterKeyID": _NO_KEY,
        "BucketEncryption.ServerSideEncryptionConfiguration[].BucketKeyEnabled": _NO_KEY,
        "PublicAccessBlockConfiguration.BlockPublicAcls": "moto",
        "PublicAccessBlockConfiguration.BlockPublicPolicy": "moto",
        "PublicAccessBlockConfiguration.IgnorePublicAcls": "moto",
        "PublicAccessBlockConfiguration.RestrictPublicBuckets": "moto",
        "OwnershipControls.Rules[].ObjectOwnership": "moto",
        "LifecycleConfiguration.Rules[].Id": "moto",
        "LifecycleConfiguration.Rules[].Status": "moto",
        "LifecycleConfiguration.Rules[].TagFilters[].Key": "moto",
        "LifecycleConfiguration.Rules[].TagFilters[].Value": "moto",
        "LifecycleConfiguration.Rules[].ExpirationInDays": _NO_TIME,
        "LifecycleConfiguration.Rules[].AbortIncompleteMultipartUpload.DaysAfterInitiation": _NO_TIME,
        "LifecycleConfiguration.Rules[].NoncurrentVersionExpiration.NoncurrentDays": _NO_TIME,
    },
    "AWS::S3::BucketPolicy": {"Bucket": "iam", "PolicyDocument": "iam"},
    "AWS::DynamoDB::Table": {
        "BillingMode": "moto",
        "AttributeDefinitions[].AttributeName": "moto",
        "AttributeDefinitions[].AttributeType": "moto",
        "KeySchema[].AttributeName": "moto",
        "KeySchema[].KeyType": "moto",
        "TimeToLiveSpecification.AttributeName": "moto",
        "TimeToLiveSpecification.Enabled": _NO_TIME,
        "PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": "moto",
        "SSESpecification.SSEEnabled": "moto",
        "SSESpecification.SSEType": "moto",
        "SSESpecification.KMSMasterKeyId": _NO_KEY,
    },
    "AWS::SQS::Queue": {"MessageRetentionPeriod": "moto", "SqsManagedSseEnabled": "moto", "KmsMasterKeyId": _NO_KEY},
    "AWS::Logs::LogGroup": {
        "LogGroupName": "moto",
        "RetentionInDays": "static: functions write their logs to files beside the account, which go with it",
        "KmsKeyId": _NO_KEY,
    },
    "AWS::IAM::Role": {
        "Path": "moto",
        "PermissionsBoundary": "iam",
        "AssumeRolePolicyDocument": "iam",
        "Policies[].PolicyName": "iam",
        "Policies[].PolicyDocument": "iam",
    },
    "AWS::IAM::Policy": {"PolicyName": "iam", "PolicyDocument": "iam", "Roles[]": "iam"},
    "AWS::Lambda::Function": {
        "FunctionName": "lambda",
        "Role": "lambda",
        "Handler": "lambda",
        "ImageConfig.Command[]": "lambda",
        "PackageType": "lambda",
        "MemorySize": "lambda",
        "Timeout": "lambda",
        "Environment.Variables": "lambda",
        "ReservedConcurrentExecutions": "lambda",
        "DeadLetterConfig.TargetArn": "lambda",
        "LoggingConfig.LogGroup": "lambda",
        "RecursiveLoop": "lambda",
        "VpcConfig.SubnetIds[]": _NO_VPC,
        "VpcConfig.SecurityGroupIds[]": _NO_VPC,
        "Code.S3Bucket": "static: the program runs from its folders",
        "Code.S3Key": "static: the program runs from its folders",
        "Code.ImageUri": "static: the program runs from its folders",
        "Runtime": "static: this interpreter runs the program; one that the packages are not built for is refused",
        "Architectures[]": "static: this machine's; one that the packages are not built for is refused",
        "TracingConfig.Mode": _NO_WIRE,
        "Description": "static: words",
        "Tags[].Key": "static: SAM's mark of its own resources",
        "Tags[].Value": "static: SAM's mark of its own resources",
    },
    "AWS::Lambda::Version": {"FunctionName": "lambda"},
    "AWS::Lambda::Alias": {"Name": "lambda", "FunctionName": "lambda", "FunctionVersion": "lambda"},
    "AWS::Lambda::EventInvokeConfig": {
        "FunctionName": "lambda",
        "Qualifier": "lambda",
        "MaximumRetryAttempts": "lambda",
        "MaximumEventAgeInSeconds": "lambda",
    },
    "AWS::Lambda::Permission": {
        "Action": "static: schedules call functions directly",
        "FunctionName": "static: schedules call functions directly",
        "Principal": "static: schedules call functions directly",
        "SourceArn": "static: schedules call functions directly; a rule without a permission is refused",
    },
    "AWS::Events::Rule": {
        "ScheduleExpression": "lambda",
        "Targets[].Id": "lambda",
        "Targets[].Arn": "lambda",
        "Targets[].Input": "lambda",
        "Targets[].RetryPolicy.MaximumRetryAttempts": "static: a schedule's call reaches the queue or nobody",
        "Targets[].RetryPolicy.MaximumEventAgeInSeconds": "static: a schedule's call reaches the queue or nobody",
        "Description": "static: words",
    },
    "AWS::CloudWatch::Alarm": {
        "AlarmDescription": "moto",
        "AlarmActions[]": _NO_WIRE,
        "OKActions[]": _NO_WIRE,
        "Namespace": "moto",
        "MetricName": "moto",
        "Dimensions[].Name": "moto",
        "Dimensions[].Value": "moto",
        "Statistic": "moto",
        "Period": "moto",
        "Metrics[].Id": "moto",
        "Metrics[].Expression": "moto",
        "Metrics[].Label": "moto",
        "Metrics[].ReturnData": "moto",
        "Metrics[].MetricStat.Stat": "moto",
        "Metrics[].MetricStat.Period": "moto",
        "Metrics[].MetricStat.Metric.Namespace": "moto",
        "Metrics[].MetricStat.Metric.MetricName": "moto",
        "Metrics[].MetricStat.Metric.Dimensions[].Name": "moto",
        "Metrics[].MetricStat.Metric.Dimensions[].Value": "moto",
        "EvaluationPeriods": "moto",
        "Threshold": "moto",
        "ComparisonOperator": "moto",
        "TreatMissingData": "moto",
    },
    "AWS::Budgets::Budget": {
        "Budget.BudgetName": "moto",
        "Budget.BudgetType": "moto",
        "Budget.TimeUnit": "moto",
        "Budget.BudgetLimit.Amount": "moto",
        "Budget.BudgetLimit.Unit": "moto",
        "Budget.CostFilters.TagKeyValue[]": _NO_BILL,
        **dict.fromkeys(
            (
                *(
                    f"{_NOTIFIED}.Notification.{name}"
                    for name in ("NotificationType", "ComparisonOperator", "Threshold")
                ),
                *(f"{_NOTIFIED}.Subscribers[].{name}" for name in ("SubscriptionType", "Address")),
            ),
            _NO_BILL,
        ),
    },
    "AWS::CloudWatch::Dashboard": {"DashboardName": "moto", "DashboardBody": "moto"},
    "AWS::SNS::Topic": {"Subscription[].Protocol": _NO_WIRE, "Subscription[].Endpoint": _NO_WIRE},
}


def paths(properties: Any, at: str = "") -> Iterator[str]:
    """The paths of all properties that are set, such as ``Rules[].Status``. Of intrinsic functions only the
    alternatives of `Fn::If` are followed."""
    intrinsic = function(properties)
    if intrinsic == "Fn::If":
        for choice in properties["Fn::If"][1:]:
            yield from paths(choice, at)
    elif intrinsic == "Fn::Split":
        yield f"{at}[]"
    elif properties != {"Ref": "AWS::NoValue"}:
        parts = () if intrinsic or at.endswith(_WHOLE) else _parts(properties, at)
        if not parts and properties not in ({}, []):  # an empty value sets no property
            yield at
        for part, value in parts:
            yield from paths(value, part)


def _parts(properties: Any, at: str) -> Sequence[tuple[str, Any]]:
    """The parts of an object or a list, each with its path."""
    if isinstance(properties, list):
        return [(f"{at}[]", item) for item in properties]
    if isinstance(properties, dict):
        return [(f"{at}.{name}" if at else name, value) for name, value in properties.items()]
    return ()


_ATTRIBUTES = {
    "Type": None,
    "Properties": None,
    "Condition": None,
    "DependsOn": None,
    "Metadata": None,
    "DeletionPolicy": ("Delete", "Retain", "RetainExceptOnCreate"),
    "UpdateReplacePolicy": ("Delete", "Retain"),
}
"""Attributes of a resource beside its properties, with the honoured values where not all are."""


def missing(definition: Mapping[str, Any], properties: Any) -> list[str]:
    """The unsupported parts of a resource's definition with these resolved `properties`."""
    attributes = [
        f"{definition['Type']} {name}: {value}" if name in _ATTRIBUTES else f"{definition['Type']} {name}"
        for name, value in definition.items()
        if name not in _ATTRIBUTES or value not in (_ATTRIBUTES[name] or (value,))
    ]
    return [*attributes, *unknown(definition["Type"], properties)]


def unknown(type_: str, properties: Any) -> list[str]:
    """The unsupported parts of a resource: its type, or else the sorted paths of its properties."""
    if type_ not in INVENTORY:
        return [type_]
    return sorted({f"{type_} {path}" for path in paths(properties)} - {f"{type_} {path}" for path in INVENTORY[type_]})
