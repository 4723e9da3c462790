"""The handlers of all resource types."""

from aws_emulator.cloudformation.resources import functions, identity, monitoring, storage
from aws_emulator.cloudformation.resources.kind import Clients, Kind
from aws_emulator.iam.role_policies import Rules
from aws_emulator.lambda_service.schedules import Schedules


def kinds(
    clients: Clients, lambda_functions: functions.Functions, schedules: Schedules, rules: Rules
) -> dict[str, Kind]:
    """The handler of each resource type."""
    return {
        "AWS::S3::Bucket": storage.Bucket(clients),
        "AWS::S3::BucketPolicy": storage.BucketPolicy(rules),
        "AWS::DynamoDB::Table": storage.Table(clients, rules),
        "AWS::SQS::Queue": storage.Queue(clients),
        "AWS::Logs::LogGroup": storage.LogGroup(clients),
        "AWS::IAM::Role": identity.Role(clients, rules),
        "AWS::IAM::Policy": identity.Policy(clients, rules),
        "AWS::Lambda::Function": functions.Function(clients, lambda_functions),
        "AWS::Lambda::Version": functions.Version(clients, lambda_functions),
        "AWS::Lambda::Alias": functions.Alias(clients, lambda_functions),
        "AWS::Lambda::EventInvokeConfig": functions.EventInvokeConfig(lambda_functions),
        "AWS::Lambda::Permission": functions.Permission(clients),
        "AWS::Events::Rule": functions.Rule(clients, schedules),
        "AWS::CloudWatch::Alarm": monitoring.Alarm(clients),
        "AWS::CloudWatch::Dashboard": monitoring.Dashboard(clients),
        "AWS::SNS::Topic": monitoring.Topic(clients),
        "AWS::Budgets::Budget": monitoring.Budget(clients),
    }
