"""Every kind of resource, by its type."""

from infra.emulation.cloudformation.resources import functions, identity, storage, watching
from infra.emulation.cloudformation.resources.kind import Clients, Kind
from infra.emulation.iam.role_policies import Rules
from infra.emulation.lambda_service.schedules import Schedules


def kinds(clients: Clients, known: functions.Functions, schedules: Schedules, rules: Rules) -> dict[str, Kind]:
    """What makes the resources of each type."""
    return {
        "AWS::S3::Bucket": storage.Bucket(clients),
        "AWS::S3::BucketPolicy": storage.BucketPolicy(rules),
        "AWS::DynamoDB::Table": storage.Table(clients, rules),
        "AWS::SQS::Queue": storage.Queue(clients),
        "AWS::Logs::LogGroup": storage.LogGroup(clients),
        "AWS::IAM::Role": identity.Role(clients, rules),
        "AWS::IAM::Policy": identity.Policy(clients, rules),
        "AWS::Lambda::Function": functions.Function(clients, known),
        "AWS::Lambda::Version": functions.Version(clients, known),
        "AWS::Lambda::Alias": functions.Alias(clients, known),
        "AWS::Lambda::EventInvokeConfig": functions.EventInvokeConfig(known),
        "AWS::Lambda::Permission": functions.Permission(clients),
        "AWS::Events::Rule": functions.Rule(clients, schedules),
        "AWS::CloudWatch::Alarm": watching.Alarm(clients),
        "AWS::CloudWatch::Dashboard": watching.Dashboard(clients),
        "AWS::SNS::Topic": watching.Topic(clients),
    }
