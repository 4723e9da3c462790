"""A resource's token is a SecureString that its function alone reads."""

import hashlib
import json

import pytest

from marless.functions.resources.port import ResourceCall
from marless.functions.resources.settings import Resource
from marless.infra.aws.resource_host import LambdaResources
from marless.infra.aws.resource_settings import AskableFunction
from marless.infra.deployment import deploy
from marless.infra.deployment.resource_functions import PARAMETER, TOKENS, to_parameter
from marless.infra.deployment.stack import DeploymentFault

TOKEN = "sesame-0123456789abcdef"
JUDGES = """
import hashlib, os
from marless.infra.aws.clients import Cloud

def own(question):
    token = os.environ["MARLESS_RESOURCE_OWN_TOKEN"]
    if question:
        raise ValueError(token)
    return hashlib.sha256(token.encode()).hexdigest().encode()

def other(question):
    return repr(Cloud.here().client("ssm").get_parameter(Name=question.decode(), WithDecryption=True)).encode()
"""
SERVED = {"own": "own", "other": "other", "plain": "own", "missing": "own"}
WITH_TOKEN = ("own", "plain", "missing")


def test_token_is_read_only_by_its_resource(place):
    (place.home / "token_judges.py").write_text(JUDGES)
    for name, kind in {"own": "SecureString", "plain": "String"}.items():
        place.cloud.client("ssm").put_parameter(Name=f"/marless/tokens/{name}", Value=TOKEN, Type=kind)
    resources = {name: Resource(serve=f"token_judges:{function}") for name, function in SERVED.items()}
    deploy(place.cloud, "tokens", {PARAMETER: to_parameter(resources), TOKENS: ",".join(WITH_TOKEN)})
    host = LambdaResources(
        place.cloud, {name: AskableFunction(f"marless-tokens_{name}:live", 1, 60, 1) for name in SERVED}
    )

    def ask(name, question=b""):
        return host.ask(name, [ResourceCall(question)])[0]

    assert ask("own").answer.decode() == hashlib.sha256(TOKEN.encode()).hexdigest()
    errors = {
        "plain": "the token /marless/tokens/plain is no SecureString",
        "missing": "cannot read the token /marless/tokens/missing",
    }
    assert {name: ask(name).error.startswith(text) for name, text in errors.items()} == dict.fromkeys(errors, True)
    assert "AccessDenied" in ask("other", b"/marless/tokens/own").error
    said = ask("own", b"tell").error
    assert "MARLESS_RESOURCE_OWN_TOKEN" in said and TOKEN not in said
    stack = place.cloud.client("cloudformation").describe_stacks(StackName="marless-tokens")
    described = place.cloud.client("lambda").list_functions(FunctionVersion="ALL")
    logs = place.cloud.client("logs").filter_log_events(logGroupName="/marless/marless-tokens/resource")
    with pytest.raises(DeploymentFault, match="names stranger, which is not deployed"):
        deploy(place.cloud, "tokens", {PARAMETER: to_parameter(resources), TOKENS: "own,stranger"})
    assert TOKEN not in json.dumps([stack, described, logs["events"]], default=str)
