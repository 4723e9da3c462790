"""The permissions of two tenants' stacks in one account: the template resolved, moto behind IAM authorization."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from botocore.config import Config
from botocore.session import get_session
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from samtranslator.yaml_helper import yaml_parse

from aws_emulator.cloudformation.intrinsics import Scope
from aws_emulator.cloudformation.sam_translation import translate
from aws_emulator.iam.authorization import IamAuthorization
from aws_emulator.iam.role_policies import Rules
from aws_emulator.listener import listen
from scripts.translate import with_code_uris

TEMPLATE = Path(__file__).resolve().parents[2] / "template.yaml"
ACCOUNT, REGION = "123456789012", "us-east-1"
OPERATOR = "AKIAOPERATOR"
TENANTS = ("alpha", "beta")
ROLES = ("Actor", "Learner", "Evaluator", "Coordinator")


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
        f"{name}Logs": (f"/marless/{tenant}/{name.lower()}", {"Arn": f"{_log_group(tenant, name)}:*"}) for name in ROLES
    }
    made = {
        "Objects": (bucket(tenant), {"Arn": f"arn:aws:s3:::{bucket(tenant)}"}),
        "Runs": (table(tenant), {"Arn": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table(tenant)}"}),
        "DeadLetters": (queue(tenant), {"Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:marless-{tenant}-dead"}),
        **{f"{name}Role": (role(tenant, name).rpartition("/")[2], {"Arn": role(tenant, name)}) for name in ROLES},
        **logs,
    }
    return Scope(translated, {**defaults, **pseudo, "Tenant": tenant, **parameters}, made)


# The parameters that SAM itself reads; it passes on all others as references.
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
        found[stack.made[logical][1]["Arn"]] = [policy["PolicyDocument"] for policy in policies]
    names = {arn.rpartition("/")[2]: arn for arn in found}
    for _, properties in resources(stack, "AWS::IAM::Policy"):
        policy = stack.resolve(properties)
        for name in policy["Roles"]:
            found[names[name]].append(policy["PolicyDocument"])
    return found


def resources(stack: Scope, type_: str) -> list[tuple[str, dict[str, Any]]]:
    """The resources of a type that the stack has: logical id and properties."""
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
        rules.put_table(stack.made[logical][0], keys["HASH"])
    return rules


@dataclass
class Place:
    """The account: its address, its authorization, and clients for every role."""

    endpoint: str
    authorization: IamAuthorization

    def __post_init__(self) -> None:
        # One session for all: it reads each service's model once.
        self._session = get_session()
        self._clients: dict[tuple[str, ...], Any] = {}

    def operator(self, service: str) -> Any:
        return self._client(("operator",), (OPERATOR, "secret", None), service)

    def client(self, tenant: str, name: str, service: str) -> Any:
        """A client with the credentials of a function's role."""
        who = (tenant, name)
        return self._client(who, self._session_of(tenant, name), service)

    def _session_of(self, tenant: str, name: str) -> Any:
        """Credentials as Lambda issues them to a function."""
        arn = function(tenant, name.lower(), "")
        return self.authorization.issue(role(tenant, name), "function", function=arn)

    def client_of(self, credentials: Any, service: str) -> Any:
        """A new client with these credentials: key, secret, token."""
        key, secret, token = credentials
        return self._session.create_client(
            service,
            region_name=REGION,
            endpoint_url=self.endpoint,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            aws_session_token=token,
            config=Config(s3={"addressing_style": "path"}),
        )

    def _client(self, who: tuple[str, ...], credentials: Any, service: str) -> Any:
        if (*who, service) not in self._clients:
            self._clients[(*who, service)] = self.client_of(credentials, service)
        return self._clients[(*who, service)]


def functions_before(app: Any) -> Any:
    """Replaces the emulated Lambda: answers invocations without a function."""

    def answer(environ: dict[str, Any], start: Any) -> Any:
        if not environ["PATH_INFO"].endswith("/invocations"):
            return app(environ, start)
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", "2")])
        return [b"{}"]

    return answer


@contextmanager
def account(rules: Rules) -> Iterator[Place]:
    """An empty account whose authorization has these rules."""
    authorization = IamAuthorization(
        functions_before(DomainDispatcherApplication(create_backend_app)), OPERATOR, rules, ACCOUNT
    )
    server = listen(authorization)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Place(f"http://127.0.0.1:{server.server_port}", authorization)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def two_tenants() -> Iterator[Place]:
    """Both tenants' buckets, tables, queues and log groups, with the roles of both stacks."""
    rules = Rules()
    for tenant in TENANTS:
        rules_of(scope(tenant), rules)
    with account(rules) as place:
        for tenant in TENANTS:
            _furnish(place, tenant)
        yield place


def _furnish(place: Place, tenant: str) -> None:
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
