"""The permissions of two tenants' stacks in one account: the template resolved, moto behind IAM authorization."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from emulated_accounts import ACCOUNT, REGION, Place, account_of_rules
from samtranslator.yaml_helper import yaml_parse

from aws_emulator.cloudformation.intrinsics import Scope
from aws_emulator.cloudformation.sam_translation import translate
from aws_emulator.iam.role_policies import Rules
from marless.functions.function_specs import DEPLOYED
from scripts.translate import with_code_uris

TEMPLATE = Path(__file__).resolve().parents[2] / "template.yaml"
TENANTS = ("alpha", "beta")
ROLES = tuple(name.capitalize() for name in DEPLOYED)


def bucket(tenant: str) -> str:
    return f"marless-{tenant}-objects"


def table(tenant: str) -> str:
    return f"marless-{tenant}-runs"


def function(tenant: str, name: str, qualifier: str = "1") -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:marless-{tenant}-{name}" + (
        f":{qualifier}" if qualifier else ""
    )


def role(tenant: str, name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/marless-{tenant}-{name}Role"


def queue(tenant: str) -> str:
    return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/marless-{tenant}-dead"


def scope(tenant: str, **parameters: str) -> Scope:
    """The template of a tenant's stack, translated, with names for the resources in its policies."""
    translated = _translated(tuple((name, parameters[name]) for name in sorted(_LOOKED_THROUGH & parameters.keys())))
    defaults = {name: of["Default"] for name, of in translated["Parameters"].items() if "Default" in of}
    pseudo = {
        "AWS::AccountId": ACCOUNT,
        "AWS::Region": REGION,
        "AWS::Partition": "aws",
        "AWS::StackName": f"marless-{tenant}",
    }
    logs = {
        f"{name}Logs": (f"/marless/{tenant}/{name.lower()}", {"Arn": f"{_log_group(tenant, name)}:*"})
        for name in (*ROLES, "Resource")
    }
    made = {
        "Objects": (bucket(tenant), {"Arn": f"arn:aws:s3:::{bucket(tenant)}"}),
        "Runs": (table(tenant), {"Arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table(tenant)}"}),
        "DeadLetters": (queue(tenant), {"Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:marless-{tenant}-dead"}),
        **{
            f"{name}Role": (role(tenant, name).rpartition("/")[2], {"Arn": role(tenant, name)})
            for name in (*ROLES, "Resource")
        },
        **logs,
    }
    return Scope(translated, {**defaults, **pseudo, "Tenant": tenant, **parameters}, made)


# The parameters that SAM itself reads. It passes on all others as references.
_LOOKED_THROUGH = {"ActorMemory", "Release", "Tracing"}


@cache
def _translated(parameters: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return translate(json.dumps(with_code_uris(yaml_parse(TEMPLATE.read_text()))), dict(parameters), REGION)


def _log_group(tenant: str, name: str) -> str:
    return f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/marless/{tenant}/{name.lower()}"


def roles_of(stack: Scope) -> dict[str, list[dict[str, Any]]]:
    """The policies of every role of a stack, by the role's ARN."""
    found: dict[str, list[dict[str, Any]]] = {}
    for logical, properties in resources(stack, "AWS::IAM::Role"):
        policies = stack.resolve(properties["Policies"])
        found[stack.resources[logical][1]["Arn"]] = [policy["PolicyDocument"] for policy in policies]
    names = {arn.rpartition("/")[2]: arn for arn in found}
    for _, properties in resources(stack, "AWS::IAM::Policy"):
        policy = stack.resolve(properties)
        for name in policy["Roles"]:
            found[names[name]].append(policy["PolicyDocument"])
    return found


def resources(stack: Scope, type_: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        (logical, resource.get("Properties", {}))
        for logical, resource in stack.template["Resources"].items()
        if resource["Type"] == type_ and ("Condition" not in resource or stack.holds(resource["Condition"]))
    ]


def rules_of(stack: Scope, rules: Rules | None = None) -> Rules:
    """The policies of a stack's roles and bucket, added to `rules` if given."""
    rules = rules or Rules()
    for arn, documents in roles_of(stack).items():
        for number, document in enumerate(documents):
            rules.put_policy(arn, str(number), document)
    for _, properties in resources(stack, "AWS::S3::BucketPolicy"):
        rules.put_bucket_policy(stack.resolve(properties["Bucket"]), stack.resolve(properties["PolicyDocument"]))
    for logical, properties in resources(stack, "AWS::DynamoDB::Table"):
        keys = {key["KeyType"]: key["AttributeName"] for key in properties["KeySchema"]}
        rules.put_table(stack.resources[logical][0], keys["HASH"])
    return rules


class TenantsAccount(Place):
    def client(self, tenant: str, name: str, service: str) -> Any:
        key = f"{tenant}/{name}/{service}"
        if key not in self._clients:
            self._clients[key] = self.client_of(self._session_of(tenant, name), service)
        return self._clients[key]

    def _session_of(self, tenant: str, name: str) -> Any:
        arn = function(tenant, name.lower(), "")
        return self.authorization.issue(role(tenant, name), "function", function=arn)


@contextmanager
def two_tenants() -> Iterator[TenantsAccount]:
    rules = Rules()
    for tenant in TENANTS:
        rules_of(scope(tenant), rules)
    with account_of_rules(rules) as opened:
        place = TenantsAccount(opened.endpoint, opened.authorization)
        for tenant in TENANTS:
            _furnish(place, tenant)
        yield place


def _furnish(place: TenantsAccount, tenant: str) -> None:
    place.operator("s3").create_bucket(Bucket=bucket(tenant))
    place.operator("dynamodb").create_table(
        TableName=table(tenant),
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("scope", "item")],
        KeySchema=[{"AttributeName": "scope", "KeyType": "HASH"}, {"AttributeName": "item", "KeyType": "RANGE"}],
    )
    place.operator("sqs").create_queue(QueueName=f"marless-{tenant}-dead")
    for name in ROLES:
        place.operator("logs").create_log_group(logGroupName=f"/marless/{tenant}/{name.lower()}")
