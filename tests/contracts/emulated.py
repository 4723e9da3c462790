"""The emulated account of the suites: one bucket, one table, and functions made of `echo`."""

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_emulator import account
from aws_emulator.settings import AccountSettings
from marless.cloud.emulated_account import cloud_at
from marless.infra.aws.clients import Cloud

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Emulated:
    """An account that lives as long as the tests. `role` is its functions' role, without permissions."""

    cloud: Cloud
    bucket: str
    table: str
    role: str

    def functions(self, *handlers: str, timeout_s: int = 30) -> list[str]:
        """New functions, as the ARNs of their first versions. None has an execution environment yet."""
        resources: dict[str, Any] = {}
        for number, handler in enumerate(handlers):
            resources[f"Function{number}"] = _resource(
                "AWS::Lambda::Function",
                Handler=handler,
                Role=self.role,
                Timeout=timeout_s,
                Runtime="python3.12",
                Code={"S3Bucket": self.bucket, "S3Key": "unused"},
            )
            resources[f"Version{number}"] = _resource("AWS::Lambda::Version", FunctionName={"Ref": f"Function{number}"})
        outputs = {f"Version{number}": {"Value": {"Ref": f"Version{number}"}} for number in range(len(handlers))}
        made = _deploy(self.cloud, {"Resources": resources, "Outputs": outputs})
        return [made[f"Version{number}"] for number in range(len(handlers))]


@contextmanager
def emulated(folder: Path) -> Iterator[Emulated]:
    """Starts an account in `folder`, and ends it with all its functions, at the latest with this process."""
    far, lifeline = os.pipe()
    started = account.start(folder, AccountSettings(code=(_HERE,)), lifeline=far)
    os.close(far)
    cloud = cloud_at(started.whereabouts)
    made = _deploy(cloud, _TEMPLATE)
    yield Emulated(cloud, made["Objects"], made["Runs"], made["Role"])
    started.stop()
    os.close(lifeline)


def _deploy(cloud: Cloud, template: dict[str, Any]) -> dict[str, str]:
    client, name = cloud.client("cloudformation"), f"contracts-{uuid.uuid4().hex[:12]}"
    client.create_stack(
        StackName=name, TemplateBody=json.dumps(template), Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
    )
    while True:
        (stack,) = client.describe_stacks(StackName=name)["Stacks"]
        if not stack["StackStatus"].endswith("_IN_PROGRESS"):
            break
        time.sleep(0.02)
    assert stack["StackStatus"] == "CREATE_COMPLETE", client.describe_stack_events(StackName=name)["StackEvents"]
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def _resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


_TEMPLATE = {
    "Resources": {
        "Objects": _resource("AWS::S3::Bucket"),
        "Runs": _resource(
            "AWS::DynamoDB::Table",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("scope", "item")],
            KeySchema=[{"AttributeName": "scope", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}],
        ),
        "Role": _resource(
            "AWS::IAM::Role",
            AssumeRolePolicyDocument={
                "Version": "2012-10-17",
                "Statement": [
                    {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
                ],
            },
            Policies=[
                {
                    "PolicyName": "logs",
                    "PolicyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [
                            {
                                "Effect": "Allow",
                                "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
                                "Resource": "*",
                            }
                        ],
                    },
                }
            ],
        ),
    },
    "Outputs": {
        "Objects": {"Value": {"Ref": "Objects"}},
        "Runs": {"Value": {"Ref": "Runs"}},
        "Role": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}},
    },
}
